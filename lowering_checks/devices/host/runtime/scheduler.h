// The threads of one thread block, which of them runs when, and what ends a wait.
#pragma once

#include <stdint.h>
#include <string.h>

#include <memory>
#include <vector>

#include "../include/fibers.h"
#include "findings.h"
#include "places.h"

namespace tirstep {

// A GPU gives a thread 512 KB for its locals at most. What is not touched takes no memory.
constexpr size_t stack_bytes = size_t(640) << 10, stack_guard = size_t(16) << 10;

// A stack that runs one thread after the other.
struct Fiber {
  Place place;
  char* stack;
  size_t bytes;
};

enum class State { ready, at_barrier, in_warp, done, dead };
enum class Wait { exchange, meeting, active };

struct Thread {
  State state;
  Wait wait;
  Extent index;
  int line;
  Fiber* fiber;
  unsigned int mask;
  int source;
  unsigned long long value;
};

struct Orders {
  bool reversed;
  long seed;
};

class Scheduler {
 public:
  explicit Scheduler(Records& records) : records_(records) {}

  void begin_launch(Call call, void* const* arguments, Extent block, Orders orders);
  void run_block(long number);

  // From within a thread.
  void wait_for_block(int line);
  unsigned long long wait_in_warp(Wait wait, unsigned int mask, unsigned long long value,
                                  int source, int line);
  [[noreturn]] void stop_thread();
  bool is_in_thread() const { return current_ != nullptr; }
  int current_lane() const { return int(current_ - threads_.data()) % 32; }
  void set_unset_bytes(unsigned char byte) {
    unset_byte = byte;
    memset(&unset_, byte, sizeof unset_);
  }

 private:
  static void run_fiber();
  void add_fiber();
  void begin(Fiber& fiber);
  void leave();
  void resume(Thread& thread);
  void release(Thread& thread);
  void run_ready(long sweep);
  bool settle_warps();
  bool settle_exchange(Thread* warp, int lanes, const Thread& first);
  bool settle_active(Thread* warp, int lanes);
  void stop_waiting_lanes();
  void open_barrier();
  int pick(long sweep, int place) const;

  Records& records_;
  std::vector<Thread> threads_;
  std::vector<std::vector<int>> shuffles_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Call call_ = nullptr;
  void* const* arguments_ = nullptr;
  Orders orders_{};
  Thread* current_ = nullptr;
  int unfinished_ = 0, waiting_in_warps_ = 0;
  unsigned long long unset_ = 0;
  Place home_{};
};

}  // namespace tirstep
