#include "kiln/gpu/kernel_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kiln/runtime/compiler_library.h"
#include "kiln/runtime/host_cpu.h"
#include "kiln/support/cache_folder.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "kiln/support/hash.h"

namespace kiln::gpu::detail {
namespace {

constexpr std::uint64_t kBudget = std::uint64_t{256} << 20;

std::string path_of(const std::string& key) {
  const std::string folder = cache_folder();
  return folder.empty() ? "" : format("{}/{}.kernel", folder, key);
}

}  // namespace

std::string kernel_cache_key(const runtime::KernelSource& source) {
  Hasher hasher;
  hasher.add(KILN_VERSION).add(runtime::kernel_compiler_identity());
  hasher.add(source.name).add(source.text).add(source.file).add(source.architecture);
  hasher.add(source.max_ptx_version).add(source.compile_options).add(source.link_options);
  hasher.add(source.keep_llvm_ir).add(source.keep_assembly);
  if (source.architecture.empty()) hasher.add(format("{}", join(runtime::host_features(), ",")));
  return hasher.finish128().to_string();
}

std::optional<runtime::CompiledKernel> find_cached_kernel(const std::string& key) {
  const std::string path = path_of(key);
  if (path.empty() || ::access(path.c_str(), R_OK) != 0) return std::nullopt;
  try {
    const std::string content = read_file(path);
    constexpr std::size_t kSum = 32;
    const std::string_view body = std::string_view(content).substr(std::min(kSum, content.size()));
    if (content.size() < kSum || hash128(body).to_string() != content.substr(0, kSum))
      throw RuntimeError("damaged");
    const nlohmann::json entry = nlohmann::json::from_cbor(body);
    runtime::CompiledKernel kernel;
    kernel.symbol = entry.at("symbol").get<std::string>();
    kernel.ptx = entry.at("ptx").get<std::string>();
    kernel.may_wait = entry.at("may_wait").get<bool>();
    kernel.llvm_ir = entry.at("llvm_ir").get<std::string>();
    kernel.assembly = entry.at("assembly").get<std::string>();
    const auto& image = entry.at("image").get_binary();
    kernel.image.resize(image.size());
    if (!image.empty()) std::memcpy(kernel.image.data(), image.data(), image.size());
    for (const nlohmann::json& parameter : entry.at("parameters"))
      kernel.parameters.push_back({.type = parameter.at(0),
                                   .size = parameter.at(1),
                                   .alignment = parameter.at(2),
                                   .is_pointer = parameter.at(3),
                                   .points_to_const = parameter.at(4),
                                   .pointee = parameter.at(5)});
    // The time of the file says when it was last of use.
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
    return kernel;
  } catch (const Error&) {
  } catch (const nlohmann::json::exception&) {
  }
  ::unlink(path.c_str());
  return std::nullopt;
}

void store_cached_kernel(const std::string& key, const runtime::CompiledKernel& kernel) {
  const std::string path = path_of(key);
  if (path.empty()) return;
  nlohmann::json parameters = nlohmann::json::array();
  for (const runtime::KernelParameter& p : kernel.parameters)
    parameters.push_back({p.type, p.size, p.alignment, p.is_pointer, p.points_to_const, p.pointee});
  std::vector<std::uint8_t> image(kernel.image.size());
  if (!image.empty()) std::memcpy(image.data(), kernel.image.data(), image.size());
  try {
    const std::vector<std::uint8_t> body =
        nlohmann::json::to_cbor(nlohmann::json{{"symbol", kernel.symbol},
                                               {"ptx", kernel.ptx},
                                               {"may_wait", kernel.may_wait},
                                               {"llvm_ir", kernel.llvm_ir},
                                               {"assembly", kernel.assembly},
                                               {"image", nlohmann::json::binary(std::move(image))},
                                               {"parameters", std::move(parameters)}});
    const std::string sum = hash128(body.data(), body.size()).to_string();
    const std::string_view parts[] = {sum,
                                      {reinterpret_cast<const char*>(body.data()), body.size()}};
    write_file(path, parts);
  } catch (const Error&) {
    return;
  } catch (const nlohmann::json::exception&) {
    return;
  }
  static std::atomic<unsigned> stores{0};
  if (stores.fetch_add(1) % 64 == 0) sweep_cache(cache_folder(), ".kernel", kBudget);
}

}  // namespace kiln::gpu::detail
