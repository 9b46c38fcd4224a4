#include "kiln/gpu/arguments.h"

#include <cstring>
#include <vector>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::gpu::detail {
namespace {

using Kind = AnyArgument::Kind;

struct Type {
  Kind kind = Kind::other;
  std::uint32_t size = 0;
};

/// What the compiler's spelling of a parameter's type says.
Type type_of(const runtime::KernelParameter& parameter) {
  const std::string& name = parameter.type;
  if (parameter.is_pointer) return {Kind::pointer, parameter.size};
  if (name == "bool") return {Kind::boolean, parameter.size};
  if (name == "float" || name == "double") return {Kind::floating, parameter.size};
  for (const char* text :
       {"unsigned char", "unsigned short", "unsigned int", "unsigned long", "unsigned long long"})
    if (name == text) return {Kind::unsigned_integer, parameter.size};
  for (const char* text : {"char", "signed char", "short", "int", "long", "long long"})
    if (name == text) return {Kind::integer, parameter.size};
  return {Kind::other, parameter.size};
}

/// Whether every value of `from` is one of `to`.
bool widens(const Type& from, const Type& to) {
  switch (to.kind) {
    case Kind::floating:
      return from.kind == Kind::floating && from.size <= to.size;
    case Kind::integer:
      return (from.kind == Kind::integer && from.size <= to.size) ||
             (from.kind == Kind::unsigned_integer && from.size < to.size) ||
             from.kind == Kind::boolean;
    case Kind::unsigned_integer:
      return (from.kind == Kind::unsigned_integer && from.size <= to.size) ||
             from.kind == Kind::boolean;
    case Kind::boolean:
      return from.kind == Kind::boolean;
    default:
      return false;
  }
}

/// The value of `argument` as a number of type `to`, in its first bytes.
std::uint64_t widened(const AnyArgument& argument, const Type& to) {
  std::uint64_t bits = 0;
  if (to.kind == Kind::floating) {
    if (argument.size == to.size) {
      std::memcpy(&bits, argument.value, to.size);
    } else {
      float value = 0;
      std::memcpy(&value, argument.value, sizeof value);
      const double wide = value;
      std::memcpy(&bits, &wide, sizeof wide);
    }
    return bits;
  }
  std::memcpy(&bits, argument.value, argument.size);
  if (argument.kind == Kind::integer && argument.size < 8) {
    const unsigned shift = 64 - 8 * argument.size;
    bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << shift) >> shift);
  }
  return bits;
}

std::string type_of(const AnyArgument& argument) {
  return argument.type != nullptr ? argument.type(argument) : argument.type_name;
}

[[noreturn]] void refuse(const Function& function, std::size_t index, const AnyArgument& argument,
                         const std::string& wanted) {
  throw TypeError(format(
      "{}: argument #{} of type '{}' does not match the declared function argument type '{}'",
      function.name, index, type_of(argument), wanted));
}

/// Whether an element of `dtype` is what a pointer to `pointee` reads.
bool is_element(DType dtype, const std::string& pointee) {
  const auto integer = [&](bool is_signed, int bits) {
    for (const auto& [text, s, b] : {std::tuple("char", true, 8),
                                     {"signed char", true, 8},
                                     {"unsigned char", false, 8},
                                     {"short", true, 16},
                                     {"unsigned short", false, 16},
                                     {"int", true, 32},
                                     {"unsigned int", false, 32},
                                     {"long", true, 64},
                                     {"unsigned long", false, 64},
                                     {"long long", true, 64},
                                     {"unsigned long long", false, 64}})
      if (pointee == text) return s == is_signed && b == bits;
    return false;
  };
  switch (dtype.code()) {
    case DType::int8:
      return integer(true, 8);
    case DType::int16:
      return integer(true, 16);
    case DType::int32:
      return integer(true, 32);
    case DType::int64:
      return integer(true, 64);
    case DType::uint8:
      return integer(false, 8);
    case DType::uint16:
      return integer(false, 16);
    case DType::uint32:
      return integer(false, 32);
    case DType::uint64:
      return integer(false, 64);
    case DType::float32:
      return pointee == "float";
    case DType::float64:
      return pointee == "double";
    default:
      return pointee == dtype.name() || pointee.ends_with("::" + std::string(dtype.name()));
  }
}

}  // namespace

void throw_wrong_element(const Function& function, std::size_t index, DType found,
                         const std::string& wanted) {
  throw TypeError(format(
      "{}: argument #{} of type '{}*' does not match the declared function argument type '{}'",
      function.name, index, found.name(), wanted));
}

void launch_any(const LaunchTarget& target, const Function& function, const char* call,
                const LaunchConfig& config, const AnyArgument* arguments, std::size_t count) {
  std::vector<BufferUse> uses;
  std::vector<void*> pointers(count);
  std::vector<std::uint32_t> sizes(count);
  std::vector<std::uint64_t> values(count);
  try {
    if (count != function.parameters.size())
      throw TypeError(format("{}: wrong number of arguments to enqueue: expected {}, got {}",
                             function.name, function.parameters.size(), count));
    for (std::size_t i = 0; i < count; ++i) {
      const AnyArgument& argument = arguments[i];
      const runtime::KernelParameter& parameter = function.parameters[i];
      pointers[i] = const_cast<void*>(argument.value);
      sizes[i] = parameter.size;
      bool write = true;
      if (!function.types_known) {
        if (argument.size != parameter.size)
          throw TypeError(format("{}: argument #{} has {} bytes but the parameter takes {}",
                                 function.name, i, argument.size, parameter.size));
      } else if (const Type type = type_of(parameter); type.kind == Kind::pointer) {
        const bool is_void = parameter.pointee == "void";
        if (argument.kind == Kind::pointer) {
          const bool same =
              is_void ||
              (argument.buffer != nullptr ? is_element(argument.buffer->dtype(), parameter.pointee)
                                          : type_of(argument) == parameter.type ||
                                                "const " + type_of(argument) == parameter.type);
          if (!same) refuse(function, i, argument, parameter.type);
        } else if (argument.kind != Kind::null) {
          refuse(function, i, argument, parameter.type);
        }
        write = !parameter.points_to_const;
      } else if (argument.kind == Kind::other || type.kind == Kind::other) {
        // Structs and small floats: the same type only.
        const std::string found = type_of(argument);
        const bool same = found == parameter.type || parameter.type.ends_with("::" + found);
        if (!same || argument.size != parameter.size) refuse(function, i, argument, parameter.type);
      } else {
        if (!widens({argument.kind, argument.size}, type))
          refuse(function, i, argument, parameter.type);
        values[i] = widened(argument, type);
        pointers[i] = &values[i];
      }
      if (argument.buffer != nullptr) {
        check_buffer(function, i, *argument.buffer);
        uses.push_back({argument.buffer, write});
      }
    }
    launch(target, {.function = function,
                    .config = config,
                    .call = call,
                    .arguments = pointers.data(),
                    .sizes = sizes.data(),
                    .count = count,
                    .uses = uses});
  } catch (Error& error) {
    add_place(error, config.location);
    throw;
  }
}

}  // namespace kiln::gpu::detail
