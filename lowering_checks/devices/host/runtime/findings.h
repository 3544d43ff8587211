// The findings of a run: one record for each kind, buffer and line, with its first occurrence.
#pragma once

#include <stdio.h>
#include <string.h>

#include <vector>

#include "../include/fibers.h"

namespace tirstep {

struct Record {
  const char* kind;
  const char* detail;  // an access, a C++ type, or what differs
  int buffer;          // -1: not in global memory
  long element;
  int line;
  long count;
  bool has_thread;
  Extent thread, block;
};

struct Records {
  std::vector<Record> all;

  void add(const char* kind, const char* detail, int buffer, long element, int line,
           bool has_thread, long count = 1) {
    for (Record& old : all) {
      if (strcmp(old.kind, kind) == 0 && strcmp(old.detail, detail) == 0 && old.buffer == buffer &&
          old.line == line) {
        old.count += count;
        return;
      }
    }
    all.push_back({kind, detail, buffer, element, line, count, has_thread, thread_index,
                   block_index});
  }

  // Tabs between the fields, as process.py reads them.
  void print(FILE* file) const {
    for (const Record& record : all) {
      fprintf(file, "%s\t%s\t%d\t%ld\t%d\t%ld\t%d\t(%u, %u, %u)\t(%u, %u, %u)\n", record.kind,
              record.detail, record.buffer, record.element, record.line, record.count,
              record.has_thread, record.thread.x, record.thread.y, record.thread.z, record.block.x,
              record.block.y, record.block.z);
    }
  }
};

}  // namespace tirstep
