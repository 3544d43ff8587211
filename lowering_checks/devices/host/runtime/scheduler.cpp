#include "scheduler.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

namespace tirstep {

Extent thread_index, block_index, block_extent, grid_extent;
unsigned char unset_byte;

static Scheduler* scheduler;  // the only one, for the functions that kernels call

static uint64_t next_random(uint64_t& state) {  // xorshift64*, Vigna 2016
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545f4914f6cdd1dull;
}

void Scheduler::begin_launch(Call call, void* const* arguments, Extent block, Orders orders) {
  scheduler = this;
  call_ = call;
  arguments_ = arguments;
  orders_ = orders;
  block_extent = block;
  threads_.assign(size_t(block.x) * block.y * block.z, Thread{});
  for (unsigned i = 0; i < threads_.size(); ++i)
    threads_[i].index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
  uint64_t state = uint64_t(orders.seed) * 2 + 1;
  shuffles_.assign(4, std::vector<int>(threads_.size()));
  for (auto& shuffle : shuffles_) {
    std::iota(shuffle.begin(), shuffle.end(), 0);
    for (size_t i = shuffle.size(); i > 1; --i)
      std::swap(shuffle[i - 1], shuffle[next_random(state) % i]);
  }
}

// Forward, backward and shuffled, one after the other; the reversed pass has the opposite of each.
int Scheduler::pick(long sweep, int place) const {
  const int count = int(threads_.size());
  const bool forward = (sweep % 3 != 1) != orders_.reversed;
  const int index = forward ? place : count - 1 - place;
  return sweep % 3 == 2 ? shuffles_[size_t(sweep / 3) % shuffles_.size()][index] : index;
}

void Scheduler::run_block(long number) {
  for (Thread& thread : threads_) thread.state = State::ready;
  unfinished_ = int(threads_.size());
  for (long sweep = number + orders_.seed;; ++sweep) {
    run_ready(sweep);
    if (waiting_in_warps_ > 0 && settle_warps()) continue;
    if (unfinished_ == 0) return;
    open_barrier();
  }
}

void Scheduler::run_ready(long sweep) {
  for (int place = 0; place < int(threads_.size()); ++place) {
    Thread& thread = threads_[pick(sweep, place)];
    if (thread.state == State::ready) resume(thread);
  }
}

void Scheduler::add_fiber() {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, stack_guard, PROT_NONE) != 0) {
    fputs("no memory for the threads' stacks\n", stderr);
    _exit(1);
  }
  // Stacks that begin at the same place of a page would meet in the cache.
  const size_t colour = fibers_.size() * 128 % 4096;
  char* bottom = static_cast<char*>(stack) + stack_guard;
  fibers_.push_back(std::make_unique<Fiber>());
  *fibers_.back() = {{}, bottom, stack_bytes - stack_guard - colour};
  begin(*fibers_.back());
  free_.push_back(fibers_.back().get());
}

// Forget what is on the stack: the next thread begins there.
void Scheduler::begin(Fiber& fiber) {
  prepare(fiber.place, fiber.stack, fiber.bytes, &run_fiber);
}

void Scheduler::resume(Thread& thread) {
  if (thread.fiber == nullptr) {
    if (free_.empty()) add_fiber();
    thread.fiber = free_.back();
    free_.pop_back();
  }
  thread_index = thread.index;
  current_ = &thread;
  change(home_, thread.fiber->place);
  current_ = nullptr;
  if (thread.state == State::done || thread.state == State::dead) {
    release(thread);
  } else if (thread.state == State::in_warp) {
    ++waiting_in_warps_;
  }
}

void Scheduler::release(Thread& thread) {
  if (thread.state == State::dead) begin(*thread.fiber);
  free_.push_back(thread.fiber);
  thread.fiber = nullptr;
  --unfinished_;
}

void Scheduler::leave() { change(current_->fiber->place, home_); }

void Scheduler::run_fiber() {
  for (;;) {  // one thread after the other: the current one at the entry
    scheduler->call_(scheduler->arguments_);
    scheduler->current_->state = State::done;
    scheduler->leave();
  }
}

void Scheduler::stop_thread() {
  current_->state = State::dead;
  leave();
  __builtin_unreachable();
}

void Scheduler::wait_for_block(int line) {
  current_->state = State::at_barrier;
  current_->line = line;
  leave();
}

unsigned long long Scheduler::wait_in_warp(Wait wait, unsigned int mask, unsigned long long value,
                                           int source, int line) {
  Thread& own = *current_;
  own.state = State::in_warp;
  own.wait = wait;
  own.mask = mask;
  own.value = value;
  own.source = source;
  own.line = line;
  leave();
  return own.value;
}

bool Scheduler::settle_warps() {
  bool any = false;
  for (size_t first = 0; first < threads_.size(); first += 32) {
    Thread* warp = &threads_[first];
    const int lanes = int(std::min<size_t>(32, threads_.size() - first));
    bool settled = false;
    for (int lane = 0; lane < lanes; ++lane) {
      if (warp[lane].state == State::in_warp && warp[lane].wait != Wait::active)
        settled |= settle_exchange(warp, lanes, warp[lane]);
    }
    any |= settled || settle_active(warp, lanes);
  }
  if (!any) stop_waiting_lanes();
  return any;
}

// An exchange takes place once all lanes of its mask that still run have come to it: to the same
// shuffle, or to any __syncwarp.
bool Scheduler::settle_exchange(Thread* warp, int lanes, const Thread& first) {
  const unsigned int mask = first.mask;
  unsigned long long offered[32];
  unsigned int here = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    const Thread& thread = warp[lane];
    const bool is_over = thread.state == State::done || thread.state == State::dead;
    if ((mask >> lane & 1) == 0 || is_over) continue;
    if (thread.state != State::in_warp || thread.wait != first.wait) return false;
    if (thread.mask != mask) return false;
    if (first.wait == Wait::exchange && thread.line != first.line) return false;
    offered[lane] = thread.value;
    here |= 1u << lane;
  }
  for (int lane = 0; lane < lanes; ++lane) {
    if ((here >> lane & 1) == 0) continue;
    const int source = warp[lane].source;
    const bool has_value = source >= 0 && source < 32 && (here >> source & 1) != 0;
    warp[lane].value = has_value ? offered[source] : unset_;
    warp[lane].state = State::ready;
    --waiting_in_warps_;
  }
  return true;
}

bool Scheduler::settle_active(Thread* warp, int lanes) {
  unsigned int here = 0;
  int line = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    const Thread& thread = warp[lane];
    if (thread.state != State::in_warp || thread.wait != Wait::active) continue;
    if (here == 0) line = thread.line;
    if (thread.line == line) here |= 1u << lane;
  }
  for (int lane = 0; lane < lanes; ++lane) {
    if ((here >> lane & 1) == 0) continue;
    warp[lane].value = here;
    warp[lane].state = State::ready;
    --waiting_in_warps_;
  }
  return here != 0;
}

// Record lanes that wait for ever, and end them.
void Scheduler::stop_waiting_lanes() {
  for (Thread& thread : threads_) {
    if (thread.state != State::in_warp) continue;
    records_.add("divergent shuffle", "lanes", -1, 0, thread.line, false);
    thread.state = State::dead;
    release(thread);
    --waiting_in_warps_;
  }
}

// All threads that still run wait at a barrier. A kernel whose threads end before a barrier that
// others come to, or that come to different ones, is recorded and goes on.
void Scheduler::open_barrier() {
  int waiting = 0, done = 0, line = 0;
  bool is_same = true;
  for (const Thread& thread : threads_) {
    if (thread.state == State::done) ++done;
    if (thread.state != State::at_barrier) continue;
    if (waiting++ == 0) line = thread.line;
    is_same = is_same && thread.line == line;
  }
  if (done > 0) {
    records_.add("divergent barrier", "some", -1, waiting, line, false);
  } else if (!is_same) {
    records_.add("divergent barrier", "different", -1, waiting, line, false);
  }
  for (Thread& thread : threads_) {
    if (thread.state == State::at_barrier) thread.state = State::ready;
  }
}

void wait_for_block(int line) { scheduler->wait_for_block(line); }

void wait_for_warp(unsigned int mask, int line) {
  scheduler->wait_in_warp(Wait::meeting, mask, 0, 0, line);
}

unsigned int find_active_lanes(int line) {
  return unsigned(scheduler->wait_in_warp(Wait::active, 0, 0, 0, line));
}

unsigned long long exchange(unsigned int mask, unsigned long long value, int source, int line) {
  return scheduler->wait_in_warp(Wait::exchange, mask, value, source, line);
}

int find_own_lane() { return scheduler->current_lane(); }

}  // namespace tirstep
