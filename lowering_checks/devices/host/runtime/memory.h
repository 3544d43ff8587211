// Global memory: each buffer between pages that nobody may touch, with a rim of known bytes.
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
  bool is_argument;
  std::vector<char> initial;  // arguments only; the rest begins as what nobody has written
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

  // Lay the data against the pages behind it, or against those before it.
  void fill(bool at_front, unsigned char byte) {
    unset = byte;
    memset(pages, unset, page_bytes);
    data = pages + (at_front ? 0 : (page_bytes - bytes) / alignment * alignment);
    if (is_argument) memcpy(data, initial.data(), bytes);
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
