// A few lines in place of CuTe: what the probe header asks of it.
#pragma once
#include <type_traits>
#include <utility>

namespace cute {
template <int N>
struct Int { static constexpr int value = N; };

template <class... Modes>
struct Shape {};

template <int I, class First, class... Rest>
struct Mode : Mode<I - 1, Rest...> {};
template <class First, class... Rest>
struct Mode<0, First, Rest...> { using type = First; };

template <int I, class... Modes>
constexpr typename Mode<I, Modes...>::type get(Shape<Modes...>) { return {}; }
template <int I, class... Modes>
constexpr int size(Shape<Modes...>) { return Mode<I, Modes...>::type::value; }

template <class>
struct is_static : std::true_type {};
template <int N, class T>
struct is_constant : std::false_type {};
template <int N>
struct is_constant<N, Int<N>> : std::true_type {};
}  // namespace cute
