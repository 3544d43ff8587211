// Runs the kernels of one generated source: blocks one after the other, the threads of a block as
// fibers, which change at barriers, in orders that vary.
//
// The process reads a job from its standard input and writes to its standard output the arguments
// after the run, then what went wrong, a line each, then "end". process.py is the other side.
//
// Two passes over the same inputs: the second with threads in the opposite of the first's orders,
// and with other bytes in uninitialized memory. What a legal kernel computes is the same in both;
// where it is not, a third pass tells the one reason from the other.

#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../include/fibers.h"
#include "findings.h"
#include "memory.h"
#include "scheduler.h"

namespace tirstep {

struct Launch {
  long kernel;
  Extent grid, block;
  std::vector<long> numbers, integers;  // for each argument: a buffer's number or -1; an integer
};

struct Pass {
  Orders orders;
  bool at_front;
  unsigned char unset;
  bool blurs;  // outputs begin as something else than what was given
};

static std::vector<Buffer> buffers;
static std::vector<Launch> launches;
static Records records;
static Scheduler threads(records);

// ---- Errors of a thread: they are recorded, and the thread ends there.

[[noreturn]] static void stop(const char* kind, const char* detail, const char* place, int line) {
  int near = -1;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].has_near(place)) near = int(i);
  const long element = near < 0 ? 0 : buffers[near].find_element(place);
  records.add(kind, detail, near, element, line, true);
  threads.stop_thread();
}

static void handle_signal(int number, siginfo_t* information, void* context) {
  if (!threads.is_in_thread()) {
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  // Clang's checks of an array's bounds end in an illegal instruction, with no report.
  if (number == SIGILL || number == SIGTRAP) stop("out of bounds", "'place'", nullptr, 0);
  if (number == SIGFPE) stop("division by zero", "divides by zero", nullptr, 0);
  const char* access = "access to";
#ifdef __x86_64__
  const auto* registers = static_cast<ucontext_t*>(context);
  access = registers->uc_mcontext.gregs[REG_ERR] & 2 ? "store to" : "load of";
#endif
  stop("out of bounds", access, static_cast<const char*>(information->si_addr), 0);
}

static void catch_signals() {
  static char stack[1 << 16];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = handle_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigaction(number, &action, nullptr);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

// ---- Shared memory: the program's thread-local memory, all of it the kernels'.

struct Range {
  char* begin = nullptr;
  size_t bytes = 0;
};

static int find_shared(dl_phdr_info* information, size_t, void* found) {
  auto* range = static_cast<Range*>(found);
  for (int i = 0; i < information->dlpi_phnum; ++i) {
    if (information->dlpi_phdr[i].p_type == PT_TLS) {
      range->begin = static_cast<char*>(information->dlpi_tls_data);
      range->bytes = information->dlpi_phdr[i].p_memsz;
    }
  }
  return 1;  // the program itself comes first; the libraries' own are left alone
}

// ---- The passes.

static void run_launch(const Launch& launch, const Pass& pass, const Range& shared) {
  std::vector<long> integers = launch.integers;
  std::vector<void*> arguments;
  for (size_t i = 0; i < launch.numbers.size(); ++i) {
    const long number = launch.numbers[i];
    arguments.push_back(number < 0 ? static_cast<void*>(&integers[i]) : &buffers[number].data);
  }
  grid_extent = launch.grid;
  threads.begin_launch(kernels[launch.kernel], arguments.data(), launch.block, pass.orders);
  const Extent grid = launch.grid;
  const long blocks = long(grid.x) * grid.y * grid.z;
  for (long i = 0; i < blocks; ++i) {
    const long number = pass.orders.reversed ? blocks - 1 - i : i;
    block_index = {unsigned(number % grid.x), unsigned(number / grid.x % grid.y),
                   unsigned(number / grid.x / grid.y)};
    if (shared.bytes > 0) memset(shared.begin, pass.unset, shared.bytes);
    threads.run_block(number);
  }
}

static void run_pass(const Pass& pass) {
  Range shared;
  dl_iterate_phdr(find_shared, &shared);
  threads.set_unset_bytes(pass.unset);
  // Another byte for each buffer: what is loaded beside one and stored beside another is seen too.
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].fill(pass.at_front, static_cast<unsigned char>(pass.unset - i % 64), pass.blurs);
  for (const Launch& launch : launches) run_launch(launch, pass, shared);
  for (size_t i = 0; i < buffers.size(); ++i) {
    long element;
    if (buffers[i].find_stray(&element))
      records.add("out of bounds", "store to", int(i), element, 0, false);
  }
}

using Results = std::vector<std::vector<char>>;

static Results take_results() {
  Results results;
  for (const Buffer& buffer : buffers)
    if (buffer.is_argument) results.emplace_back(buffer.data, buffer.data + buffer.bytes);
  return results;
}

// The arguments, which are all buffers that results come from.
static std::vector<int> find_arguments() {
  std::vector<int> numbers;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].is_argument) numbers.push_back(int(i));
  return numbers;
}

// Record where one pass computed something else than the first, if `records` is given: returns
// whether there is such a place. Elements that no thread stored to are no difference where outputs
// were blurred.
static bool find_differences(const Results& first, const Results& other, bool blurred,
                             const char* kind, Records* records) {
  bool any = false;
  const std::vector<int> numbers = find_arguments();
  for (size_t i = 0; i < first.size(); ++i) {
    const Buffer& buffer = buffers[numbers[i]];
    const long size = buffer.item_bytes;
    long element = 0, count = 0;
    for (long k = 0; k < buffer.bytes; k += size) {
      if (memcmp(&first[i][k], &other[i][k], size) == 0) continue;
      if (blurred && buffer.was_left(k, &first[i][k], &other[i][k])) continue;
      if (count++ == 0) element = k / size;
    }
    any |= count > 0;
    if (count > 0 && records != nullptr)
      records->add(kind, "differs", numbers[i], element, 0, false, count);
  }
  return any;
}

static Results run_passes(long seed) {
  const Pass forward{{false, seed}, false, 0xff, false}, backward{{true, seed}, false, 0xff, false};
  const Pass backward_over_other_bytes{{true, seed}, true, 0x7b, true};
  run_pass(forward);
  const Results first = take_results();
  if (!records.all.empty()) return first;
  run_pass(backward_over_other_bytes);
  const Results other = take_results();
  if (!records.all.empty() || !find_differences(first, other, true, "", nullptr)) return first;
  run_pass(backward);
  if (!find_differences(first, take_results(), false, "race", &records))
    find_differences(first, other, true, "uninitialized read", &records);
  return first;
}

// ---- The job.

static long read_number() {
  long number;
  if (fread(&number, sizeof number, 1, stdin) != 1) {
    fputs("the job ends too early\n", stderr);
    exit(1);
  }
  return number;
}

static Extent read_extent() {
  const long x = read_number(), y = read_number(), z = read_number();
  return {unsigned(x), unsigned(y), unsigned(z)};
}

static long read_job() {
  alarm(unsigned(read_number()) + 5);  // in case no other process is left to end this one
  const long seed = read_number();
  buffers.resize(read_number());
  for (Buffer& buffer : buffers) {
    buffer.bytes = read_number();
    buffer.item_bytes = read_number();
    buffer.alignment = read_number();
    buffer.is_argument = read_number() != 0;
    buffer.is_output = read_number() != 0;
  }
  launches.resize(read_number());
  for (Launch& launch : launches) {
    launch.kernel = read_number();
    launch.grid = read_extent();
    launch.block = read_extent();
    for (long i = read_number(); i > 0; --i) {
      launch.numbers.push_back(read_number());
      launch.integers.push_back(read_number());
    }
  }
  for (Buffer& buffer : buffers) {
    const size_t bytes = buffer.is_argument ? buffer.bytes : 0;
    buffer.initial.resize(bytes);
    if (!buffer.reserve() || fread(buffer.initial.data(), 1, bytes, stdin) != bytes) {
      fputs("the job's arrays cannot be laid out\n", stderr);
      exit(1);
    }
  }
  return seed;
}

}  // namespace tirstep

// ---- Called by the checks that the compiler builds into kernels (-fsanitize=alignment,bounds,
// object-size, float-cast-overflow, shift-exponent), in the form that GCC and Clang share.

struct Place {
  const char* file;
  unsigned int line, column;
};
struct Type {
  unsigned short kind, info;
  char name[1];
};
struct Mismatch {
  Place place;
  const Type* type;
  unsigned char log_alignment, kind;
};
struct Index {
  Place place;
  const Type *array, *index;
};

struct Conversion {  // of a float to an integer, or the two operands of a shift
  Place place;
  const Type *from, *to;
};

extern "C" void __ubsan_handle_type_mismatch_v1(Mismatch* check, unsigned long place) {
  const bool is_aligned = (place & ((1ul << check->log_alignment) - 1)) == 0;
  tirstep::stop(is_aligned ? "out of bounds" : "misaligned access", check->type->name,
                reinterpret_cast<const char*>(place), int(check->place.line));
}

extern "C" void __ubsan_handle_out_of_bounds(Index* check, unsigned long index) {
  tirstep::records.add("out of bounds", check->array->name, -1, long(index),
                       int(check->place.line), true);
  tirstep::threads.stop_thread();
}

// A float beyond the range of an integer: a CPU makes its smallest of it, a GPU saturates.
extern "C" void __ubsan_handle_float_cast_overflow(Conversion* check, unsigned long) {
  tirstep::records.add("undefined operation", check->to->name, -1, 0, int(check->place.line), true);
}

// Shifting by as many bits as a type has, or by more: a CPU wraps, a GPU shifts all out.
extern "C" void __ubsan_handle_shift_out_of_bounds(Conversion* check, unsigned long,
                                                   unsigned long distance) {
  tirstep::records.add("undefined operation", "shift", -1, long(distance),
                       int(check->place.line), true);
}

int main() {
  tirstep::catch_signals();
  const long seed = tirstep::read_job();
  for (const auto& bytes : tirstep::run_passes(seed)) fwrite(bytes.data(), 1, bytes.size(), stdout);
  tirstep::records.print(stdout);
  fputs("end\n", stdout);
  return 0;
}
