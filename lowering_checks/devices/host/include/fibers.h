// The threads of a thread block as fibers of one CPU thread: what a kernel sees of them.
//
// A fiber runs until it waits: for its block, or for lanes of its warp. scheduler.cpp decides which
// one runs next.
#pragma once

#include <string.h>

#include <utility>

namespace tirstep {

struct Extent {
  unsigned int x, y, z;
};

// CUDA's built-in variables, of the fiber that runs.
extern Extent thread_index, block_index, block_extent, grid_extent;

// Wait for all threads of the block. The line is where the source says so.
void wait_for_block(int line);

// Wait for the lanes of a mask.
void wait_for_warp(unsigned int mask, int line);

// The lanes that came here together: those that wait here once no lane of the warp can go on.
unsigned int find_active_lanes(int line);

// Wait for the lanes of a mask, offer them a value, and return what lane `source` offers.
unsigned long long exchange(unsigned int mask, unsigned long long value, int source, int line);

int find_own_lane();

// Uninitialized memory begins as these bytes, other ones in each pass.
extern unsigned char unset_byte;

template <typename T>
inline void unset(T& locals) {
  memset(static_cast<void*>(&locals), unset_byte, sizeof locals);
}

inline unsigned int mask_or_all(unsigned int mask = 0xffffffffu) { return mask; }

template <typename To, typename From>
inline To reinterpret(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// CUDA's shuffles; outside of its segment of `width` lanes a thread keeps its own value.
struct Shuffle {
  int line;

  template <typename T>
  T index(unsigned int mask, T value, int lane, int width = 32) const {
    return take(mask, value, segment(width) + (lane & (width - 1)));
  }
  template <typename T>
  T up(unsigned int mask, T value, unsigned int delta, int width = 32) const {
    const int own = find_own_lane(), source = own - int(delta);
    return take(mask, value, source < segment(width) ? own : source);
  }
  template <typename T>
  T down(unsigned int mask, T value, unsigned int delta, int width = 32) const {
    const int own = find_own_lane(), source = own + int(delta);
    return take(mask, value, source >= segment(width) + width ? own : source);
  }
  template <typename T>
  T exclusive_or(unsigned int mask, T value, int bits, int width = 32) const {
    const int own = find_own_lane(), source = own ^ bits;
    return take(mask, value, source >= segment(width) + width ? own : source);
  }

 private:
  static int segment(int width) { return find_own_lane() & ~(width - 1); }

  template <typename T>
  T take(unsigned int mask, T value, int source) const {
    static_assert(sizeof(T) <= 8);
    unsigned long long bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = exchange(mask, bits, source, line);
    memcpy(&value, &bits, sizeof value);
    return value;
  }
};

// A kernel, called with a pointer to each argument.
using Call = void (*)(void* const* arguments);

template <typename... P, size_t... I>
inline void call_with(void (*kernel)(P...), void* const* arguments, std::index_sequence<I...>) {
  kernel(*static_cast<P*>(arguments[I])...);
}

template <typename... P>
inline void call(void (*kernel)(P...), void* const* arguments) {
  call_with(kernel, arguments, std::index_sequence_for<P...>{});
}

// Behind a generated source stands TIRSTEP_KERNELS(TIRSTEP_KERNEL(main_kernel)).
extern const Call kernels[];
#define TIRSTEP_KERNEL(name) [](void* const* arguments) { tirstep::call(name, arguments); }
#define TIRSTEP_KERNELS(...) const tirstep::Call tirstep::kernels[] = {__VA_ARGS__};

}  // namespace tirstep
