// The part of CUDA C++ that TVM's generated kernels use, for a plain C++ compiler.
//
// A generated source includes <cuda.h> and finds this file. Names are CUDA's; what they mean is in
// the CUDA C++ Programming Guide. Threads, barriers and warps are in fibers.h.
#pragma once

#include <stdint.h>

#include <type_traits>

#include "fibers.h"
#include "math_constants.h"
#include "math_functions.h"

// TVM writes `__shared__ alignas(64) float x[64];`, where C++ wants alignas in front.
#define alignas(n) __attribute__((aligned(n)))
#define __align__(n) __attribute__((aligned(n)))
#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
// The compiler must not keep what another thread may change over a barrier.
#define __restrict__

// Shared memory is thread-local memory of the one thread that runs all fibers: so both forms,
// `__shared__ float x[64]` and `extern __shared__ float x[]`, are valid C++, and all of it is one
// range, which the runtime fills anew for each block.
#define __shared__ thread_local

#define TIRSTEP_VECTOR(type, name, two, four)                                       \
  struct name##1 { type x; };                                                       \
  struct alignas(two) name##2 { type x, y; };                                       \
  struct name##3 { type x, y, z; };                                                 \
  struct alignas(four) name##4 { type x, y, z, w; };                                \
  inline name##1 make_##name##1(type x) { return {x}; }                             \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }                  \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }       \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

TIRSTEP_VECTOR(signed char, char, 2, 4)
TIRSTEP_VECTOR(unsigned char, uchar, 2, 4)
TIRSTEP_VECTOR(short, short, 4, 8)
TIRSTEP_VECTOR(unsigned short, ushort, 4, 8)
TIRSTEP_VECTOR(int, int, 8, 16)
TIRSTEP_VECTOR(unsigned int, uint, 8, 16)
TIRSTEP_VECTOR(long, long, 16, 16)
TIRSTEP_VECTOR(unsigned long, ulong, 16, 16)
TIRSTEP_VECTOR(long long, longlong, 16, 16)
TIRSTEP_VECTOR(unsigned long long, ulonglong, 16, 16)
TIRSTEP_VECTOR(float, float, 8, 16)
TIRSTEP_VECTOR(double, double, 16, 16)

#define threadIdx (tirstep::thread_index)
#define blockIdx (tirstep::block_index)
#define blockDim (tirstep::block_extent)
#define gridDim (tirstep::grid_extent)
#define warpSize 32

#define __syncthreads() tirstep::wait_for_block(__LINE__)
#define __syncwarp(...) tirstep::wait_for_warp(tirstep::mask_or_all(__VA_ARGS__), __LINE__)
#define __activemask() tirstep::find_active_lanes(__LINE__)
#define __shfl_sync(...) tirstep::Shuffle{__LINE__}.index(__VA_ARGS__)
#define __shfl_up_sync(...) tirstep::Shuffle{__LINE__}.up(__VA_ARGS__)
#define __shfl_down_sync(...) tirstep::Shuffle{__LINE__}.down(__VA_ARGS__)
#define __shfl_xor_sync(...) tirstep::Shuffle{__LINE__}.exclusive_or(__VA_ARGS__)
inline void __threadfence() {}
inline void __threadfence_block() {}

inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned int)x) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned int __float_as_uint(float x) { return tirstep::reinterpret<unsigned int>(x); }
inline int __float_as_int(float x) { return tirstep::reinterpret<int>(x); }
inline float __uint_as_float(unsigned int x) { return tirstep::reinterpret<float>(x); }
inline float __int_as_float(int x) { return tirstep::reinterpret<float>(x); }
template <typename T>
inline T __ldg(const T* place) { return *place; }

// Four products of bytes, added to c.
template <typename A, typename B>
inline int __dp4a(A a, B b, int c) {
  using First = std::conditional_t<std::is_signed_v<A>, signed char, unsigned char>;
  using Second = std::conditional_t<std::is_signed_v<B>, signed char, unsigned char>;
  for (int shift = 0; shift < 32; shift += 8) c += int(First(a >> shift)) * int(Second(b >> shift));
  return c;
}
