#include "compiler/kernel_source/frontend.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/Basic/DiagnosticFrontend.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/FrontendActions.h>
#include <clang/Frontend/MultiplexConsumer.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Serialization/ASTWriter.h>
#include <clang/Serialization/PCHContainerOperations.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Support/thread.h>
#include <signal.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>

#include "compiler/codegen/single_lanes.h"
#include "compiler/crash_guard.h"
#include "compiler/kernel_source/file_system.h"
#include "kiln/support/sanitizer.h"

#ifdef KILN_ADDRESS_SANITIZER
#include <sanitizer/lsan_interface.h>
#endif

namespace kiln::compiler::kernel_source {
namespace {

// Clang recurses as deep as a source nests; it asks for more only at a few places.
constexpr unsigned kStackBytes = 64u << 20;

void initialize_targets() {
  static const bool done = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    return true;
  }();
  (void)done;
}

// What one run finds out on its way.
struct Run {
  const FrontendInput& input;
  FrontendResult& result;
};

class FindKernels : public clang::ASTConsumer {
 public:
  explicit FindKernels(Run& run) : run_(run) {}
  void HandleTranslationUnit(clang::ASTContext& context) override {
    run_.result.kernels = find_kernels(context);
    const auto named = find_named(run_.result.kernels, run_.input.source->name);
    if (named.size() == 1) run_.result.symbol = named.front()->symbol;
  }

 private:
  Run& run_;
};

void watch_words(clang::CompilerInstance& compiler, Run& run) {
  if (!run.input.host) return;
  clang::Preprocessor& preprocessor = compiler.getPreprocessor();
  preprocessor.setTokenWatcher([&](const clang::Token& token) {
    const clang::IdentifierInfo* identifier =
        token.isAnnotation() || token.isLiteral() ? nullptr : token.getIdentifierInfo();
    if (!identifier || !is_gpu_word(std::string_view(identifier->getName()))) return;
    const clang::SourceManager& sources = preprocessor.getSourceManager();
    const clang::SourceLocation place = token.getLocation();
    if (sources.isInSystemHeader(sources.getSpellingLoc(place)) ||
        sources.isInSystemHeader(sources.getExpansionLoc(place)))
      return;
    run.result.gpu_words.push_back(identifier->getName().str());
  });
}

// An action of Clang that also looks for kernels.
template <class Action>
class Compile : public Action {
 public:
  explicit Compile(Run& run) : run_(run) {}

 protected:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler,
                                                        llvm::StringRef file) override {
    watch_words(compiler, run_);
    std::vector<std::unique_ptr<clang::ASTConsumer>> consumers;
    consumers.push_back(std::make_unique<FindKernels>(run_));
    if (auto own = Action::CreateASTConsumer(compiler, file)) consumers.push_back(std::move(own));
    return std::make_unique<clang::MultiplexConsumer>(std::move(consumers));
  }

 private:
  Run& run_;
};

// Only the kernel that was asked for is part of the output.
void drop_other_kernels(llvm::Module& module, const std::string& symbol) {
  for (llvm::Function& function : module)
    if (function.getCallingConv() == llvm::CallingConv::PTX_Kernel &&
        function.getName() != symbol && !function.isDeclaration())
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
}

class AtStart : public llvm::PassInfoMixin<AtStart> {
 public:
  explicit AtStart(Run& run) : run_(run) {}
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&) {
    if (run_.input.host)
      run_.result.host_entry = complete_host_entry(module);
    else
      drop_other_kernels(module, run_.result.symbol);
    return llvm::PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }

 private:
  Run& run_;
};

class AtEnd : public llvm::PassInfoMixin<AtEnd> {
 public:
  explicit AtEnd(Run& run) : run_(run) {}
  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&) {
    bool changed = false;
    if (run_.input.host)
      for (llvm::Function& function : module) changed |= store_single_lanes(function);
    if (run_.input.source->keep_llvm_ir) {
      llvm::raw_string_ostream out(run_.result.llvm_ir);
      module.print(out, nullptr);
    }
    return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }

 private:
  Run& run_;
};

void add_passes(clang::CompilerInstance& compiler, Run& run) {
  compiler.getCodeGenOpts().PassBuilderCallbacks.push_back([&run](llvm::PassBuilder& builder) {
    builder.registerPipelineStartEPCallback(
        [&run](llvm::ModulePassManager& passes, llvm::OptimizationLevel) {
          passes.addPass(AtStart(run));
        });
    builder.registerOptimizerLastEPCallback(
        [&run](llvm::ModulePassManager& passes, llvm::OptimizationLevel, llvm::ThinOrFullLTOPhase) {
          passes.addPass(AtEnd(run));
        });
  });
}

template <class Action>
void execute(clang::CompilerInstance& compiler, Run& run) {
  Compile<Action> action(run);
  run.result.succeeded = compiler.ExecuteAction(action);
}

using Arguments = std::vector<std::string>;

// A compiler that is ready to run; null when the arguments are bad.
std::unique_ptr<clang::CompilerInstance> make_compiler(
    const Arguments& words, const llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem>& files,
    llvm::raw_ostream& messages) {
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  clang::DiagnosticOptions options;
  options.ShowColors = false;
  auto engine = clang::CompilerInstance::createDiagnostics(
      *files, options, new clang::TextDiagnosticPrinter(messages, options));
  auto invocation = std::make_shared<clang::CompilerInvocation>();
  if (!clang::CompilerInvocation::CreateFromArgs(*invocation, arguments, *engine)) return nullptr;
  // What only the backend finds has a line of the source by this; nothing of it is written.
  if (invocation->getCodeGenOpts().getDebugInfo() == llvm::codegenoptions::NoDebugInfo)
    invocation->getCodeGenOpts().setDebugInfo(llvm::codegenoptions::LocTrackingOnly);

  auto compiler = std::make_unique<clang::CompilerInstance>(std::move(invocation));
  compiler->setVirtualFileSystem(files);
  compiler->createDiagnostics(
      new clang::TextDiagnosticPrinter(messages, compiler->getDiagnosticOpts()));
  compiler->createFileManager();
  compiler->setVerboseOutputStream(llvm::nulls());
  return compiler;
}

// Reads headers and keeps what Clang makes of them. GeneratePCHAction would write a file.
class KeepHeaders : public clang::ASTFrontendAction {
 public:
  explicit KeepHeaders(std::shared_ptr<clang::PCHBuffer> bytes) : bytes_(std::move(bytes)) {}

 protected:
  clang::TranslationUnitKind getTranslationUnitKind() override { return clang::TU_Prefix; }
  bool BeginSourceFileAction(clang::CompilerInstance& compiler) override {
    compiler.getLangOpts().CompilingPCH = true;
    return true;
  }
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler,
                                                        llvm::StringRef) override {
    return std::make_unique<clang::PCHGenerator>(
        compiler.getPreprocessor(), compiler.getModuleCache(), kPreludeFile, "", bytes_,
        compiler.getCodeGenOpts(), compiler.getFrontendOpts().ModuleFileExtensions);
  }

 private:
  std::shared_ptr<clang::PCHBuffer> bytes_;
};

// The headers as Clang has read them, for one set of arguments; empty when that failed. Reading
// them takes longer than all the rest of a small kernel.
class Preludes {
 public:
  using Bytes = std::shared_ptr<const clang::PCHBuffer>;

  Bytes get(const Arguments& language, llvm::raw_ostream& messages) {
    std::string key;
    for (const std::string& word : language) key += word + '\n';
    {
      std::lock_guard lock(mutex_);
      if (auto found = known_.find(key); found != known_.end()) return found->second;
    }
    // Not under the lock, which a crash would leave locked.
    Bytes bytes = read(language, messages);
    std::lock_guard lock(mutex_);
    if (known_.size() >= kMost) known_.clear();
    if (bytes) known_[key] = bytes;
    return bytes;
  }

 private:
  static constexpr std::size_t kMost = 16;

  static Bytes read(const Arguments& language, llvm::raw_ostream& messages) {
    const auto files = make_file_system("nothing.cu", "", "", {});
    Arguments words = language;
    words.emplace_back(std::string(kHeaderFolder) + "/kiln/main.cuh");
    const auto compiler = make_compiler(words, files, messages);
    if (!compiler) return nullptr;
    auto bytes = std::make_shared<clang::PCHBuffer>();
    KeepHeaders action(bytes);
    return compiler->ExecuteAction(action) && bytes->IsComplete ? bytes : nullptr;
  }

  std::mutex mutex_;
  std::map<std::string, Bytes> known_;
};

void run_clang(Run& run) {
  static Preludes preludes;
  initialize_targets();
  const FrontendInput& input = run.input;
  FrontendResult& result = run.result;
  llvm::raw_string_ostream messages(result.diagnostics);
  const Preludes::Bytes prelude = preludes.get(input.language, messages);
  if (!prelude) return;
  const auto files = make_file_system(input.source->file, input.text,
                                      {prelude->Data.data(), prelude->Data.size()}, input.folders);
  Arguments words = input.language;
  words.insert(words.end(), {"-include-pch", kPreludeFile, "-fno-validate-pch"});
  words.insert(words.end(), input.arguments.begin(), input.arguments.end());
  words.push_back(input.source->file);
  const auto compiler = make_compiler(words, files, messages);
  if (!compiler) return;
  if (input.output != FrontendInput::Output::nothing) {
    compiler->setOutputStream(std::make_unique<llvm::raw_svector_ostream>(result.output));
    add_passes(*compiler, run);
  }
  switch (input.output) {
    case FrontendInput::Output::nothing:
      return execute<clang::SyntaxOnlyAction>(*compiler, run);
    case FrontendInput::Output::assembly:
      return execute<clang::EmitAssemblyAction>(*compiler, run);
    case FrontendInput::Output::object:
      return execute<clang::EmitObjAction>(*compiler, run);
  }
}

// What the backend says when it gives up is a listing of its own data, in which a place of the
// source may stand.
std::string describe_fatal(const std::string& fatal, const std::string& file) {
  if (fatal.starts_with("it ended with code"))
    return "error: the compiler crashed; the source may nest too deep\n";
  std::string place;
  for (std::size_t at = 0; (at = fatal.find(file + ":", at)) != std::string::npos; ++at) {
    const std::size_t numbers = at + file.size() + 1;
    const std::size_t end = fatal.find_first_not_of("0123456789:", numbers);
    if (end == numbers) continue;
    place = fatal.substr(at, end - at);
    break;
  }
  return (place.empty() ? "" : place + ": ") +
         "error: the compiler gave up: " + fatal.substr(0, fatal.find('\n')) + "\n";
}

// A second stack of this thread, on which an overflow of the first is handled.
class SignalStack {
 public:
  SignalStack() : memory_(kBytes) {
    stack_t stack{};
    stack.ss_sp = memory_.data();
    stack.ss_size = memory_.size();
    ::sigaltstack(&stack, &previous_);
  }
  ~SignalStack() { ::sigaltstack(&previous_, nullptr); }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  static constexpr std::size_t kBytes = 64 << 10;
  std::vector<char> memory_;
  stack_t previous_{};
};

}  // namespace

FrontendResult run_frontend(const FrontendInput& input) {
  FrontendResult result;
  Run run{input, result};
  std::exception_ptr failure;
  std::string fatal;
  bool finished = false;
  llvm::thread worker(std::optional<unsigned>(kStackBytes), [&] {
#ifdef KILN_ADDRESS_SANITIZER
    __lsan_disable();  // what Clang held when it crashed is lost
#endif
    SignalStack signal_stack;
    finished = run_guarded(
        [&] {
          try {
            run_clang(run);
          } catch (...) {
            failure = std::current_exception();
          }
        },
        fatal);
  });
  worker.join();
  if (failure) std::rethrow_exception(failure);
  if (!finished) {
    result.succeeded = false;
    result.diagnostics += describe_fatal(fatal, input.source->file);
  }
  return result;
}

}  // namespace kiln::compiler::kernel_source
