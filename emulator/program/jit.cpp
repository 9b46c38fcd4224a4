#include "emulator/program/jit.h"

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h>

#include <atomic>

#include "emulator/execute/runtime.h"
#include "emulator/program/program.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

namespace orc = llvm::orc;

[[noreturn]] void fail(llvm::Error error) {
  throw LoadError(LoadError::Kind::invalid, format("The code of the PTX could not be linked: {}",
                                                   llvm::toString(std::move(error))));
}

// One session for the process, which lives until the process ends: threads may still run code
// while others leave main.
struct Session {
  orc::ExecutionSession session;
  orc::ObjectLinkingLayer layer;
  orc::JITDylib* runtime = nullptr;
  std::atomic<std::uint64_t> count{0};

  Session()
      : session(llvm::cantFail(orc::SelfExecutorProcessControl::Create())),
        layer(session, llvm::cantFail(llvm::jitlink::InProcessMemoryManager::Create())) {
    session.setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
    runtime = &session.createBareJITDylib("runtime");
    orc::SymbolMap symbols;
    for (const RuntimeSymbol& symbol : runtime_symbols())
      symbols[session.intern(symbol.name)] = {orc::ExecutorAddr::fromPtr(symbol.address),
                                              llvm::JITSymbolFlags::Exported};
    llvm::cantFail(runtime->define(orc::absoluteSymbols(std::move(symbols))));
  }
};

Session& session() {
  static Session* const only = new Session;
  return *only;
}

class OrcCode : public LoadedCode {
 public:
  explicit OrcCode(std::string_view object) {
    Session& s = session();
    library_ = &s.session.createBareJITDylib(format("program{}", s.count++));
    library_->addToLinkOrder(*s.runtime);
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(
        llvm::StringRef(object.data(), object.size()), "program");
    if (auto error = s.layer.add(*library_, std::move(buffer))) {
      remove();
      fail(std::move(error));
    }
  }
  ~OrcCode() override { remove(); }

  void* find(const std::string& symbol) const override {
    auto found = session().session.lookup({library_}, symbol);
    if (found) return found->getAddress().toPtr<void*>();
    missing_ = llvm::toString(found.takeError());
    return nullptr;
  }

 private:
  void remove() { llvm::consumeError(session().session.removeJITDylib(*library_)); }
  orc::JITDylib* library_ = nullptr;
  mutable std::string missing_;
};

}  // namespace

std::unique_ptr<LoadedCode> LoadedCode::load(std::string_view object) {
  return std::make_unique<OrcCode>(object);
}

}  // namespace kiln::emulator
