#include "kiln/gpu/kernel.h"

#include <map>

#include "kiln/gpu/kernel_compiler.h"
#include "kiln/gpu/source_lines.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::gpu::detail {
namespace {

struct DeviceStruct {
  std::string name, text;
};
struct DeviceStructs {
  std::mutex mutex;
  std::vector<DeviceStruct> all;
};
DeviceStructs& device_structs() {
  static auto* instance = new DeviceStructs;
  return *instance;
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Whether `word` stands in `text` as a whole word.
bool mentions(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end])))
      return true;
  }
  return false;
}

/// The structs that a text needs, in the order in which they were declared.
std::string structs_for(const std::string& text) {
  DeviceStructs& known = device_structs();
  const std::lock_guard lock(known.mutex);
  std::string needed = text;
  std::vector<bool> used(known.all.size());
  for (std::size_t i = known.all.size(); i-- > 0;)
    if (mentions(needed, known.all[i].name)) {
      used[i] = true;
      needed += known.all[i].text;
    }
  std::string result;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) result += known.all[i].text + "\n";
  return result;
}

/// "(out, in)" and "void(float*, int)" as "(float* out, int in)".
std::string named_parameters(const std::string& names, const std::string& signature) {
  const auto split = [](std::string_view list) {
    std::vector<std::string> parts;
    list = list.substr(list.find('(') + 1);
    list = list.substr(0, list.rfind(')'));
    while (!list.empty()) {
      const std::size_t comma = std::min(list.find(','), list.size());
      std::string_view part = list.substr(0, comma);
      while (part.starts_with(' ')) part.remove_prefix(1);
      parts.emplace_back(part);
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return parts;
  };
  const std::vector<std::string> types = split(signature);
  const std::vector<std::string> words = split(names);
  std::string result = "(";
  for (std::size_t i = 0; i < types.size(); ++i)
    result += format("{}{} {}", i == 0 ? "" : ", ", types[i], words.at(i));
  return result + ")";
}

}  // namespace

bool add_device_struct(const char* name, const char* text) {
  DeviceStructs& known = device_structs();
  const std::lock_guard lock(known.mutex);
  for (const DeviceStruct& other : known.all)
    if (other.name == name && other.text == text) return true;
  known.all.push_back({name, text});
  return true;
}

std::shared_ptr<const Function> make_function(const KernelDefinition& definition,
                                              const driver::Device& device,
                                              const CompileOptions& options) {
  if (device.is_host()) {
    auto function = std::make_shared<Function>(device);
    function->name = definition.name;
    function->run = definition.run;
    function->may_wait = definition.may_wait;
    function->built_in = true;
    for (std::size_t i = 0; i < definition.count; ++i)
      function->parameters.push_back({.size = definition.sizes[i]});
    function->shared_limit = static_cast<int>(kSharedLimit);
    function->largest_shared_limit = static_cast<int>(kSharedLimit);
    const DumpOptions targets = with_environment({.dump_asm = options.dump_asm,
                                                  .dump_llvm = options.dump_llvm,
                                                  .dump_sass = options.dump_sass});
    dump(*function, targets);
    if (options.ptxas_info_verbose)
      throw NotImplementedError("ptxas_info_verbose: the kernel was compiled by the host compiler");
    if (options.func_attribute) set_attribute(*function, *options.func_attribute);
    return function;
  }
  if (definition.body == nullptr)
    throw TypeError(
        format("kernel '{}' has no device form; declare it with KILN_KERNEL or compile "
               "it from source",
               definition.name));
  const std::string parameters =
      definition.parameter_names != nullptr
          ? named_parameters(definition.parameters, definition.signature())
          : definition.parameters;
  const SourceBody body = body_with_lines(definition);
  std::string text = structs_for(parameters + body.text);
  text += format("extern \"C\" __global__ void {}{}\n#line {} \"{}\"\n{}\n", definition.name,
                 parameters, body.line, definition.file, body.text);
  const KernelText source{.name = definition.name, .source = text, .file = definition.file};
  return compile_kernel(device, source, options);
}

const Function& KernelMemo::find_or_compile(const KernelDefinition& definition,
                                            const driver::Device& device,
                                            const CompileOptions& options) {
  // Held while it compiles, so that threads that come meanwhile wait for the one result.
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_)
    if (entry->device == device.backend()) {
      last_.store(entry.get(), std::memory_order_release);
      return *entry->function;
    }
  auto function = make_function(definition, device, options);
  entries_.push_back(std::make_unique<const Last>(Last{device.backend(), std::move(function)}));
  last_.store(entries_.back().get(), std::memory_order_release);
  return *entries_.back()->function;
}

bool is_default(const CompileOptions& options) {
  return options.compile_options.empty() && options.link_options.empty() && !options.dump_asm &&
         !options.dump_llvm && !options.dump_sass && !options.ptxas_info_verbose &&
         !options.func_attribute;
}

KernelMemo& memo_with(const KernelDefinition& definition, const CompileOptions& options) {
  struct Memos {
    std::mutex mutex;
    std::map<std::string, std::unique_ptr<KernelMemo>> all;
  };
  static auto* memos = new Memos;  // leaked: launches may come until the very end
  const FuncAttribute attribute = options.func_attribute.value_or(FuncAttribute::NULL_ATTRIBUTE);
  const std::string key =
      format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", static_cast<const void*>(&definition),
             options.compile_options, options.link_options, options.dump_asm.key(),
             options.dump_llvm.key(), options.dump_sass.key(), options.ptxas_info_verbose,
             attribute.attribute, attribute.value);
  const std::lock_guard lock(memos->mutex);
  std::unique_ptr<KernelMemo>& memo = memos->all[key];
  if (!memo) memo = std::make_unique<KernelMemo>();
  return *memo;
}

}  // namespace kiln::gpu::detail
