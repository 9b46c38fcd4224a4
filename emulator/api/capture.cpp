#include "emulator/api/capture.h"

namespace kiln::emulator {
bool is_capturing(Driver&, Stream&) { return false; }
CUresult capture_work(Driver&, Stream&, const std::shared_ptr<Context>&, Work) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult refuse_wait(Driver&, Stream&) { return CUDA_SUCCESS; }
CUresult refuse_implicit(Driver&, Stream&) { return CUDA_SUCCESS; }
CUresult refuse_during_capture() { return CUDA_SUCCESS; }
bool is_captured(Driver&, Event&) { return false; }
CUresult capture_record(Driver&, Stream&, const std::shared_ptr<Context>&,
                        const std::shared_ptr<Event>&, bool) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult capture_wait(Driver&, Stream&, const std::shared_ptr<Context>&,
                      const std::shared_ptr<Event>&, bool) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
void invalidate_capture(Driver&, Stream&) {}
void invalidate_capture(Driver&, Event&) {}
}  // namespace kiln::emulator
