#pragma once

// Nested values: std::vector, std::array, std::tuple, std::pair, std::map<std::string, T>,
// std::optional and structs registered with KILN_TREE are nodes; what a walk calls its leaf is a
// leaf, and all else is static. The walks know the types when they are compiled.

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace kiln::tree {

/// The path of the child `key` of the node at `path`: `layers.3`.
std::string extend_path(const std::string& path, std::string_view key);
inline std::string extend_path(const std::string& path, std::size_t index) {
  return extend_path(path, std::to_string(index));
}

namespace detail {

/// Name a struct and a class template.
template <typename T>
struct NamedType {};
template <template <typename...> class T>
struct NamedTemplate {};
template <typename T>
constexpr NamedType<T> named() {
  return {};
}
template <template <typename...> class T>
constexpr NamedTemplate<T> named() {
  return {};
}
template <typename T>
struct TemplateOf {
  using type = void;
};
template <template <typename...> class T, typename... Args>
struct TemplateOf<T<Args...>> {
  using type = NamedTemplate<T>;
};

/// The `index`th of names that stand in a macro's arguments.
std::string_view field_name(std::string_view names, std::size_t index);

}  // namespace detail

/// Makes a struct, or each struct of a class template, a node whose children are the fields, of
/// which there are up to eight. It stands in the namespace of the struct.
#define KILN_TREE(Type, ...)                                                                     \
  template <typename Self>                                                                       \
  constexpr auto kiln_tree_fields(decltype(::kiln::tree::detail::named<Type>()), Self& self) {   \
    return                                                                                       \
        [](auto&... fields) { return std::tie(fields...); } KILN_TREE_FIELDS(self, __VA_ARGS__); \
  }                                                                                              \
  constexpr std::string_view kiln_tree_names(decltype(::kiln::tree::detail::named<Type>())) {    \
    return #__VA_ARGS__;                                                                         \
  }                                                                                              \
  static_assert(true, "the macro is followed by a semicolon")

// `(self.a, self.b)` for up to eight fields.
#define KILN_TREE_FIELDS(self, ...)                                                            \
  KILN_TREE_PICK(__VA_ARGS__, KILN_TREE_8, KILN_TREE_7, KILN_TREE_6, KILN_TREE_5, KILN_TREE_4, \
                 KILN_TREE_3, KILN_TREE_2, KILN_TREE_1)                                        \
  (self, __VA_ARGS__)
#define KILN_TREE_PICK(a, b, c, d, e, f, g, h, name, ...) name
#define KILN_TREE_1(s, a) (s.a)
#define KILN_TREE_2(s, a, b) (s.a, s.b)
#define KILN_TREE_3(s, a, b, c) (s.a, s.b, s.c)
#define KILN_TREE_4(s, a, b, c, d) (s.a, s.b, s.c, s.d)
#define KILN_TREE_5(s, a, b, c, d, e) (s.a, s.b, s.c, s.d, s.e)
#define KILN_TREE_6(s, a, b, c, d, e, f) (s.a, s.b, s.c, s.d, s.e, s.f)
#define KILN_TREE_7(s, a, b, c, d, e, f, g) (s.a, s.b, s.c, s.d, s.e, s.f, s.g)
#define KILN_TREE_8(s, a, b, c, d, e, f, g, h) (s.a, s.b, s.c, s.d, s.e, s.f, s.g, s.h)

namespace detail {
template <typename T>
struct TagOf {
  using Plain = std::remove_cv_t<T>;
  using type = std::conditional_t<requires(NamedType<Plain> tag) { kiln_tree_names(tag); },
                                  NamedType<Plain>, typename TemplateOf<Plain>::type>;
};
/// How KILN_TREE knows the type.
template <typename T>
using Tag = typename TagOf<T>::type;

template <typename T>
constexpr auto fields_of(T& value) {
  return kiln_tree_fields(Tag<T>(), value);
}
}  // namespace detail

template <typename T>
concept Registered = requires(detail::Tag<T> tag) { kiln_tree_names(tag); };

// What a type is to a walk whose leaves are of type Leaf.

template <typename T, typename Leaf>
inline constexpr bool is_leaf = std::is_base_of_v<Leaf, std::remove_cvref_t<T>>;
template <typename T>
inline constexpr bool is_vector = false;
template <typename T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <typename T>
inline constexpr bool is_map = false;
template <typename T>
inline constexpr bool is_map<std::map<std::string, T>> = true;
template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;
/// std::tuple, std::pair and std::array.
template <typename T>
concept TupleLike = requires { std::tuple_size<std::remove_cv_t<T>>::value; };

/// T with Leaf in the place of another leaf.
template <typename T, typename From, typename To>
struct Rebind {
  using type = std::conditional_t<is_leaf<T, From>, To, T>;
};
template <typename T, typename From, typename To>
using rebind = typename Rebind<std::remove_cvref_t<T>, From, To>::type;
template <typename T, typename From, typename To>
struct Rebind<std::vector<T>, From, To> {
  using type = std::vector<rebind<T, From, To>>;
};
template <typename T, std::size_t N, typename From, typename To>
struct Rebind<std::array<T, N>, From, To> {
  using type = std::array<rebind<T, From, To>, N>;
};
template <typename T, typename From, typename To>
struct Rebind<std::map<std::string, T>, From, To> {
  using type = std::map<std::string, rebind<T, From, To>>;
};
template <typename T, typename From, typename To>
struct Rebind<std::optional<T>, From, To> {
  using type = std::optional<rebind<T, From, To>>;
};
template <typename... T, typename From, typename To>
struct Rebind<std::tuple<T...>, From, To> {
  using type = std::tuple<rebind<T, From, To>...>;
};
template <typename A, typename B, typename From, typename To>
struct Rebind<std::pair<A, B>, From, To> {
  using type = std::pair<rebind<A, From, To>, rebind<B, From, To>>;
};
template <template <typename...> class Node, typename... Args, typename From, typename To>
  requires(Registered<Node<Args...>> && !is_leaf<Node<Args...>, From>)
struct Rebind<Node<Args...>, From, To> {
  using type = Node<rebind<Args, From, To>...>;
};

/// Calls `leaf(value, path)` for each leaf and `constant(value, path)` for each static value, in
/// order. `value` may be const.
template <typename Leaf, typename T, typename OnLeaf, typename OnConstant>
void walk(T& value, const std::string& path, const OnLeaf& leaf, const OnConstant& constant) {
  using Plain = std::remove_cv_t<T>;
  const auto inside = [&](auto& child, const std::string& at) {
    walk<Leaf>(child, at, leaf, constant);
  };
  if constexpr (is_leaf<Plain, Leaf>) {
    leaf(value, path);
  } else if constexpr (is_vector<Plain>) {
    for (std::size_t i = 0; i < value.size(); ++i) inside(value[i], extend_path(path, i));
  } else if constexpr (is_map<Plain>) {
    for (auto& [key, child] : value) inside(child, extend_path(path, key));
  } else if constexpr (is_optional<Plain>) {
    if (value) inside(*value, path);
  } else if constexpr (Registered<T>) {
    std::apply(
        [&](auto&... fields) {
          std::size_t i = 0;
          (inside(fields,
                  extend_path(path, detail::field_name(kiln_tree_names(detail::Tag<T>()), i++))),
           ...);
        },
        detail::fields_of(value));
  } else if constexpr (TupleLike<Plain>) {
    std::apply(
        [&](auto&... children) {
          std::size_t i = 0;
          (inside(children, extend_path(path, i++)), ...);
        },
        value);
  } else {
    constant(value, path);
  }
}

/// Walks two values of one structure side by side: `leaf(a, b, path)` for each leaf,
/// `constant(a, b, path)` for each static value, and `size(a, b, path)` for each node whose size is
/// not a part of its type, which throws unless the sizes, or the keys, are equal.
template <typename Leaf, typename A, typename B, typename OnLeaf, typename OnConstant,
          typename OnSize>
void zip(A& a, B& b, const std::string& path, const OnLeaf& leaf, const OnConstant& constant,
         const OnSize& size) {
  using Plain = std::remove_cv_t<A>;
  const auto inside = [&](auto& x, auto& y, const std::string& at) {
    zip<Leaf>(x, y, at, leaf, constant, size);
  };
  if constexpr (is_leaf<Plain, Leaf>) {
    leaf(a, b, path);
  } else if constexpr (is_vector<Plain>) {
    size(a, b, path);
    for (std::size_t i = 0; i < a.size(); ++i) inside(a[i], b[i], extend_path(path, i));
  } else if constexpr (is_map<Plain>) {
    size(a, b, path);
    auto other = b.begin();
    for (auto& [key, child] : a) inside(child, (other++)->second, extend_path(path, key));
  } else if constexpr (is_optional<Plain>) {
    size(a, b, path);
    if (a) inside(*a, *b, path);
  } else if constexpr (Registered<A>) {
    const auto names = kiln_tree_names(detail::Tag<A>());
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      auto x = detail::fields_of(a);
      auto y = detail::fields_of(b);
      (inside(std::get<I>(x), std::get<I>(y), extend_path(path, detail::field_name(names, I))),
       ...);
    }(std::make_index_sequence<std::tuple_size_v<decltype(detail::fields_of(a))>>());
  } else if constexpr (TupleLike<Plain>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (inside(std::get<I>(a), std::get<I>(b), extend_path(path, I)), ...);
    }(std::make_index_sequence<std::tuple_size_v<Plain>>());
  } else {
    constant(a, b, path);
  }
}

/// Gives `to` the sizes and keys of `from` and its static values; leaves stay as they are.
template <typename Leaf, typename From, typename To>
void take_shape(const From& from, To& to) {
  if constexpr (is_leaf<From, Leaf>) {
    // The caller fills it in.
  } else if constexpr (is_vector<From>) {
    to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) take_shape<Leaf>(from[i], to[i]);
  } else if constexpr (is_map<From>) {
    to.clear();
    for (const auto& [key, child] : from) take_shape<Leaf>(child, to[key]);
  } else if constexpr (is_optional<From>) {
    if (from)
      take_shape<Leaf>(*from, to.emplace());
    else
      to.reset();
  } else if constexpr (Registered<From>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      auto x = detail::fields_of(from);
      auto y = detail::fields_of(to);
      (take_shape<Leaf>(std::get<I>(x), std::get<I>(y)), ...);
    }(std::make_index_sequence<std::tuple_size_v<decltype(detail::fields_of(from))>>());
  } else if constexpr (TupleLike<From>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (take_shape<Leaf>(std::get<I>(from), std::get<I>(to)), ...);
    }(std::make_index_sequence<std::tuple_size_v<From>>());
  } else {
    to = from;
  }
}

}  // namespace kiln::tree
