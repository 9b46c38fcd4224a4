#include "ptx_machine.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <random>

#include "kiln/support/format.h"

namespace kiln::emulator::test {

namespace {

constexpr std::uint64_t kFirst = 0x200000000000, kSize = std::uint64_t{1} << 36;
constexpr std::uint64_t kMemory = std::uint64_t{1} << 32, kScratch = std::uint64_t{1} << 35;
constexpr std::uint64_t kScratchSize = std::uint64_t{1} << 33, kHead = 1 << 20;

unsigned width_of(const std::string& type) {
  return type == "pred"
             ? 32
             : static_cast<unsigned>(std::stoul(type.substr(type.find_first_of("0123456789"))));
}

}  // namespace

Machine& Machine::instance() {
  static auto* const machine = new Machine;
  return *machine;
}

Machine::Machine() {
  void* memory =
      ::mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* begin = static_cast<std::byte*>(memory);
  ::mprotect(begin + kHead, kMemory, PROT_READ | PROT_WRITE);
  ::mprotect(begin + kScratch, kScratchSize, PROT_READ | PROT_WRITE);
  view_.base = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(begin) - kFirst);
  view_.first = kFirst;
  view_.last = kFirst + kSize;
  view_.scratch_first = kFirst + kScratch;
  view_.scratch_last = view_.scratch_first + kScratchSize;
  next_ = kFirst + kHead;
}

std::uint64_t Machine::allocate(std::uint64_t bytes) {
  const std::uint64_t address = next_;
  next_ += (bytes + 255) / 256 * 256;
  return address;
}

void Machine::keep_bounds() {
  view_.bounds =
      static_cast<std::uint8_t*>(::mmap(nullptr, kSize / 8 + 64, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

void Machine::limit(std::uint64_t address, std::uint8_t bytes) {
  const_cast<std::uint8_t*>(view_.bounds)[(address - view_.first) / 8] = bytes;
}

void Machine::keep_written() {
  view_.written = static_cast<std::uint8_t*>(::mmap(
      nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

void Machine::mark_written(std::uint64_t address, std::uint64_t bytes) {
  std::memset(view_.written + (address - view_.first), 1, bytes);
}

Result launch(const std::shared_ptr<const Program>& program, std::string_view kernel, Dim3 grid,
              Dim3 block, const std::vector<std::uint64_t>& arguments, std::uint32_t dynamic_shared,
              bool cooperative) {
  Machine& machine = Machine::instance();
  Result result;
  Launch launch;
  launch.program = program;
  while (program->kernels()[launch.kernel].name != kernel) ++launch.kernel;
  const Kernel& description = program->kernels()[launch.kernel];
  launch.grid = grid;
  launch.block = block;
  launch.dynamic_shared_bytes = dynamic_shared;
  launch.cooperative = cooperative;
  launch.parameters.resize(description.parameter_bytes + 8);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    std::memcpy(launch.parameters.data() + description.parameters[i].offset, &arguments[i],
                description.parameters[i].bytes);
  for (const Variable& variable : program->variables()) {
    const std::uint64_t address = machine.allocate(variable.bytes);
    std::memcpy(machine.at(address), variable.initial.data(), variable.initial.size());
    launch.variables.push_back(address);
  }
  for (std::size_t i = 0; i < launch.variables.size(); ++i)
    for (const Variable::Relocation& relocation : program->variables()[i].relocations) {
      const std::uint64_t value =
          launch.variables[relocation.variable] + static_cast<std::uint64_t>(relocation.addend);
      std::memcpy(machine.at(launch.variables[i] + relocation.offset), &value, sizeof value);
    }
  launch.view = &machine.view();
  launch.print = [&result](std::string_view text) { result.printed += text; };
  const auto running = Grid::start(std::move(launch));
  if (!running->run_range(0, running->num_blocks())) {
    std::vector<std::unique_ptr<Block>> blocks;
    for (std::uint64_t i = 0; i < running->num_blocks(); ++i) blocks.push_back(running->begin(i));
    for (int idle = 0; !blocks.empty() && idle < 2000; ++idle) {
      for (auto& each : blocks) {
        const Block::State state = each->resume();
        if (state == Block::State::yielded) continue;
        each.reset();
        idle = 0;
      }
      std::erase(blocks, nullptr);
    }
    if (!blocks.empty()) result.waiting = blocks.front()->waiting();
    if (!blocks.empty() && result.waiting.empty()) result.waiting = "no reason";
  }
  result.fault = running->fault();
  return result;
}

std::string ptx(std::string_view body) {
  return format(".version 8.7\n.target sm_90\n.address_size 64\n{}", body);
}

std::vector<std::uint64_t> apply(const Operation& operation,
                                 const std::vector<std::vector<std::uint64_t>>& inputs) {
  Machine& machine = Machine::instance();
  const std::size_t count = inputs[0].size();
  std::string text =
      ".visible .entry k(.param .u64 out, .param .u64 in0, .param .u64 in1, .param .u64 in2, "
      ".param .u32 n)\n{\n.reg .pred %p, %q, %in;\n.reg .b32 %i, %n, %t;\n.reg .b64 %x, %o, %y;\n";
  text += format(".reg .{} %d;\n", operation.result);
  for (std::size_t i = 0; i < operation.operands.size(); ++i)
    text += format(".reg .{} %{};\n", operation.operands[i], "abc"[i]);
  text +=
      "mov.u32 %i, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %t, %tid.x;\n"
      "mad.lo.s32 %i, %i, %n, %t;\nld.param.u32 %n, [n];\nsetp.ge.u32 %in, %i, %n;\n"
      "@%in bra END;\nmul.wide.u32 %x, %i, 8;\n";
  std::vector<std::uint64_t> arguments{machine.allocate(8 * count)};
  for (std::size_t i = 0; i < 3; ++i) {
    if (i >= operation.operands.size()) {
      arguments.push_back(0);
      continue;
    }
    arguments.push_back(machine.upload(inputs[i]));
    text += format("ld.param.u64 %y, [in{}];\nadd.s64 %y, %y, %x;\nld.global.b{} %{}, [%y];\n", i,
                   width_of(operation.operands[i]), "abc"[i]);
  }
  arguments.push_back(count);
  text += operation.instructions + "\nld.param.u64 %o, [out];\nadd.s64 %o, %o, %x;\n";
  text += format("st.global.b{} [%o], %d;\nEND: ret;\n}}\n", width_of(operation.result));
  const auto program = Program::load(ptx(text), {});
  const auto blocks = static_cast<std::uint32_t>((count + 127) / 128);
  const Result result = launch(program, "k", {blocks, 1, 1}, {128, 1, 1}, arguments);
  EXPECT_FALSE(result.fault) << result.fault->sentence;
  std::vector<std::uint64_t> values = machine.download<std::uint64_t>(arguments[0], count);
  if (width_of(operation.result) < 64)
    for (std::uint64_t& value : values)
      value &= (std::uint64_t{1} << width_of(operation.result)) - 1;
  return values;
}

std::vector<std::uint64_t> interesting_integers(unsigned width, std::size_t count,
                                                std::uint64_t seed) {
  const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  const std::uint64_t top = std::uint64_t{1} << (width - 1);
  const std::uint64_t edges[] = {0,  1,  2,    3,        31,  32,      33,     63,
                                 64, 65, mask, mask - 1, top, top - 1, top + 1};
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> values;
  while (values.size() < count) {
    const std::uint64_t choice = random();
    if (choice % 3 == 0)
      values.push_back(edges[random() % std::size(edges)] & mask);
    else
      values.push_back((random() & mask) >> (choice % 5 == 0 ? random() % width : 0));
  }
  return values;
}

std::vector<std::uint64_t> interesting_reals(unsigned width, std::size_t count, std::uint64_t seed,
                                             bool special) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> values;
  while (values.size() < count) {
    const std::uint64_t choice = random() % 8;
    std::uint64_t value = random();
    if (width == 32) {
      value &= 0xffffffff;
      // Near to 1, so that sums cancel and round.
      if (choice < 4) value = (value & 0x807fffff) | (117 + random() % 20) << 23;
      if (choice == 4) value &= 0x807fffff;  // subnormals
      if (choice == 5) value &= 0xff800000;  // powers of two
      if (!special && (value & 0x7f800000) == 0x7f800000) continue;
    } else {
      if (choice < 4) value = (value & 0x800fffffffffffff) | (1013 + random() % 20) << 52;
      if (choice == 4) value &= 0x800fffffffffffff;
      if (choice == 5) value &= 0xfff0000000000000;
      if (!special && (value & 0x7ff0000000000000) == 0x7ff0000000000000) continue;
    }
    values.push_back(value);
  }
  return values;
}

TEST(PtxMachine, AppliesAnOperation) {
  const auto result =
      apply({"add.s32 %d, %a, %b;", "s32", {"s32", "s32"}}, {{1, 2}, {3, 0xffffffff}});
  EXPECT_EQ(result, (std::vector<std::uint64_t>{4, 1}));
}

}  // namespace kiln::emulator::test
