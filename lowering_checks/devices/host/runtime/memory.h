// Global memory: each buffer between pages that no access may reach, with a guard zone of known
// bytes.
#pragma once

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

namespace tirstep {

constexpr size_t guard_bytes = size_t(4) << 20;

struct Buffer {
  long bytes, item_bytes, alignment;
  bool is_argument, is_output;  // outputs are arguments that a kernel stores to
  std::vector<char> initial;    // arguments only; the rest begins as uninitialized memory
  char* pages = nullptr;
  size_t page_bytes = 0;
  char* data = nullptr;
  unsigned char unset = 0;

  // Returns false where the machine does not give the memory.
  bool reserve() {
    page_bytes = (std::max(bytes, 1L) + 4095) / 4096 * 4096;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* all = mmap(nullptr, page_bytes + 2 * guard_bytes, PROT_NONE, flags, -1, 0);
    if (all == MAP_FAILED) return false;
    pages = static_cast<char*>(all) + guard_bytes;
    return mprotect(pages, page_bytes, PROT_READ | PROT_WRITE) == 0;
  }

  // What an element of an output begins as where it is to be something else than what was given.
  char blur(long offset) const { return static_cast<char>(initial[offset] ^ 0x5a); }

  // Lay the data against the pages behind it, or against those before it.
  void fill(bool at_front, unsigned char byte, bool blurs) {
    unset = byte;
    memset(pages, unset, page_bytes);
    data = pages + (at_front ? 0 : (page_bytes - bytes) / alignment * alignment);
    if (is_argument) memcpy(data, initial.data(), bytes);
    for (long i = 0; blurs && is_output && i < bytes; ++i) data[i] = blur(i);
  }

  // Whether no thread stored to an element: one run left what was given, and the other the blurred
  // bytes.
  bool was_left(long offset, const char* given, const char* blurred) const {
    if (!is_output || memcmp(given, &initial[offset], item_bytes) != 0) return false;
    for (long i = 0; i < item_bytes; ++i)
      if (blurred[i] != blur(offset + i)) return false;
    return true;
  }

  // The first element beside the data whose bytes changed: false if there is none.
  bool find_stray(long* element) const {
    const auto changed = [this](char byte) { return static_cast<unsigned char>(byte) != unset; };
    const char* behind = std::find_if(data + bytes, pages + page_bytes, changed);
    if (behind != pages + page_bytes) {
      *element = find_element(behind);
      return true;
    }
    const char* before = std::find_if(pages, data, changed);
    *element = find_element(before);
    return before != data;
  }

  long find_element(const char* place) const {
    const long offset = place - data;
    return (offset >= 0 ? offset : offset - item_bytes + 1) / item_bytes;
  }

  bool has_near(const char* place) const {
    return place >= pages - guard_bytes && place < pages + page_bytes + guard_bytes;
  }
};

}  // namespace tirstep
