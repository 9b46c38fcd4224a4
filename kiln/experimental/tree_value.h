#pragma once

// Nested values whose structure is known when a program runs.

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kiln/experimental/tree.h"
#include "kiln/support/error.h"

namespace kiln::tree {

/// A leaf, a static value, a list of children (of vectors, arrays, tuples and pairs) or named
/// children in their order (of maps and registered structs). Nothing: an optional without a value.
template <typename Leaf>
struct Value {
  using List = std::vector<Value>;
  struct Named {
    std::vector<std::string> keys;
    std::vector<Value> children;
    void add(std::string key, Value child) {
      keys.push_back(std::move(key));
      children.push_back(std::move(child));
    }
  };
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Leaf, List, Named> data;

  const Leaf* leaf() const { return std::get_if<Leaf>(&data); }
  const List* list() const { return std::get_if<List>(&data); }
  const Named* named() const { return std::get_if<Named>(&data); }
};

/// Calls `visit(leaf, path)` for each leaf, in order.
template <typename Leaf, typename Visit>
void for_each_leaf(const Value<Leaf>& value, const std::string& path, const Visit& visit) {
  if (value.leaf()) return visit(*value.leaf(), path);
  if (const auto* list = value.list())
    for (std::size_t i = 0; i < list->size(); ++i)
      for_each_leaf((*list)[i], extend_path(path, i), visit);
  if (const auto* named = value.named())
    for (std::size_t i = 0; i < named->keys.size(); ++i)
      for_each_leaf(named->children[i], extend_path(path, named->keys[i]), visit);
}

/// The same structure and static values with `change(leaf)` in the place of each leaf.
template <typename To, typename From, typename Change>
Value<To> map_leaves(const Value<From>& value, const Change& change) {
  return std::visit(
      [&](const auto& data) -> Value<To> {
        using Data = std::remove_cvref_t<decltype(data)>;
        if constexpr (std::is_same_v<Data, From>) {
          return {change(data)};
        } else if constexpr (std::is_same_v<Data, typename Value<From>::List>) {
          typename Value<To>::List list;
          for (const auto& child : data) list.push_back(map_leaves<To>(child, change));
          return {std::move(list)};
        } else if constexpr (std::is_same_v<Data, typename Value<From>::Named>) {
          typename Value<To>::Named named;
          for (std::size_t i = 0; i < data.keys.size(); ++i)
            named.add(data.keys[i], map_leaves<To>(data.children[i], change));
          return {std::move(named)};
        } else {
          return {data};
        }
      },
      value.data);
}

/// A value of known type taken apart. Static values are bools, numbers, enumerations and texts;
/// others: TypeError naming their path.
template <typename Leaf, typename T>
Value<Leaf> to_value(const T& value, const std::string& path = "") {
  if constexpr (is_leaf<T, Leaf>) {
    return {Leaf(value)};
  } else if constexpr (is_vector<T>) {
    typename Value<Leaf>::List list;
    for (std::size_t i = 0; i < value.size(); ++i)
      list.push_back(to_value<Leaf>(value[i], extend_path(path, i)));
    return {std::move(list)};
  } else if constexpr (is_map<T>) {
    typename Value<Leaf>::Named named;
    for (const auto& [key, child] : value)
      named.add(key, to_value<Leaf>(child, extend_path(path, key)));
    return {std::move(named)};
  } else if constexpr (is_optional<T>) {
    return value ? to_value<Leaf>(*value, path) : Value<Leaf>{};
  } else if constexpr (Registered<T>) {
    typename Value<Leaf>::Named named;
    std::apply(
        [&](const auto&... fields) {
          std::size_t i = 0;
          const auto add = [&](const auto& field) {
            const std::string name(
                detail::field_name(kiln_tree_names(detail::Tag<const T>()), i++));
            named.add(name, to_value<Leaf>(field, extend_path(path, name)));
          };
          (add(fields), ...);
        },
        detail::fields_of(value));
    return {std::move(named)};
  } else if constexpr (TupleLike<T>) {
    typename Value<Leaf>::List list;
    std::apply(
        [&](const auto&... children) {
          std::size_t i = 0;
          (list.push_back(to_value<Leaf>(children, extend_path(path, i++))), ...);
        },
        value);
    return {std::move(list)};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {value};
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    return {static_cast<std::int64_t>(value)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {static_cast<double>(value)};
  } else if constexpr (std::is_convertible_v<T, std::string>) {
    return {std::string(value)};
  } else {
    throw TypeError("The static value at " + (path.empty() ? std::string("<root>") : path) +
                    " is of a class of its own, which cannot be taken apart.");
  }
}

}  // namespace kiln::tree
