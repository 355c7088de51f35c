// race_detector.cc - who wrote and who read every two bytes of memory last.
// SPDX-License-Identifier: Apache-2.0
//
// A cell of shadow memory for two bytes keeps the last write and two reads. Two reads are enough:
// of two different threads, a third one that writes has no order to at least one if it has none to
// some. A record carries the block's number, counted over all launches, so that nothing is cleared
// between blocks or launches: a smaller number than the launch's first is history.
#include "testing/host_executor/race_detector.h"

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "absl/strings/str_cat.h"

namespace dtrain::host_executor::race {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kCellBytes = 2;
constexpr size_t kManyPages = 4096;  // whose shadows take 200 MB

// Packed, because there are three for every two bytes. Zero is no record: blocks count from 1.
struct Record {
  uint64_t block : 24 = 0;
  uint64_t barriers : 12 = 0;         // the block has passed
  uint64_t warp_operations : 16 = 0;  // the warp has passed
  uint64_t thread : 10 = 0;
  uint64_t bytes : 2 = 0;  // of the cell, as a mask
};
static_assert(sizeof(Record) == 8);

struct Cell {
  Record write;
  std::array<Record, 2> reads;
};
using Page = std::array<Cell, kPageBytes / kCellBytes>;

constexpr uint32_t kMaxBlock = (1u << 24) - 1;

bool SameMoment(const Record& a, const Record& b) {
  return a.block == b.block && a.barriers == b.barriers && a.thread == b.thread &&
         a.warp_operations == b.warp_operations;
}

struct Detector {
  static Detector& Get() {
    thread_local Detector detector;
    return detector;
  }

  Cell& CellOf(uintptr_t byte) {
    const uintptr_t number = byte / kPageBytes;
    auto& [cached_number, cached_page] = cache[number % cache.size()];
    if (cached_number != number || cached_page == nullptr) {
      std::unique_ptr<Page>& page = pages[number];
      if (page == nullptr) page = std::make_unique<Page>();
      cached_number = number;
      cached_page = page.get();
    }
    return (*cached_page)[byte % kPageBytes / kCellBytes];
  }

  void Forget() {
    pages.clear();
    cache = {};
  }

  // `earlier` precedes what the current thread does now, or concerns other bytes.
  bool Ordered(const Record& earlier, const Record& now) const {
    if (earlier.block < first_block || (earlier.bytes & now.bytes) == 0) return true;
    if (earlier.block != now.block) return in_shared;
    if (earlier.thread == now.thread || earlier.barriers != now.barriers) return true;
    return earlier.thread / 32 == now.thread / 32 && earlier.warp_operations != now.warp_operations;
  }

  bool Check(const Record& earlier, const Record& now, const char* earlier_kind) {
    if (Ordered(earlier, now)) return true;
    met = earlier;
    met_kind = earlier_kind;
    return false;
  }

  bool Write(Cell& cell, Record now) {
    if (!Check(cell.write, now, "written") || !Check(cell.reads[0], now, "read") ||
        !Check(cell.reads[1], now, "read")) {
      return false;
    }
    if (SameMoment(cell.write, now)) now.bytes |= cell.write.bytes;
    cell.write = now;
    if (now.bytes == 3) cell.reads = {};
    return true;
  }

  bool Read(Cell& cell, Record now) {
    if (!Check(cell.write, now, "written")) return false;
    Record& first = cell.reads[0];
    if (SameMoment(first, now)) {
      first.bytes |= now.bytes;
    } else if (first.bytes == 0 || (Ordered(first, now) && first.thread == now.thread)) {
      first = now;
    } else if (first.block < first_block || (first.block != now.block && in_shared) ||
               (first.block == now.block && first.barriers != now.barriers)) {
      first = now;  // precedes whatever this block still does
    } else {
      cell.reads[1] = now;
    }
    return true;
  }

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  std::array<std::pair<uintptr_t, Page*>, 256> cache{};
  std::array<uint16_t, 32> warp_operations{};
  Record moment;  // of the current thread, but for warp_operations
  uint32_t next_block = 1;
  uint32_t first_block = 1;  // of the launch
  const SharedMemory* shared = nullptr;
  const Fiber* fiber = nullptr;
  bool in_shared = false;  // the access being looked at

  // The last race.
  const void* address = nullptr;
  size_t bytes = 0;
  bool is_write = false;
  Record met;
  const char* met_kind = nullptr;  // null: outside of shared memory
};

}  // namespace

void StartLaunch() {
  Detector& self = Detector::Get();
  self.first_block = self.next_block;
  // Between launches everything may be forgotten; that costs time, so only when it is much.
  if (self.pages.size() > kManyPages) self.Forget();
}

void StartBlock(const SharedMemory* shared) {
  Detector& self = Detector::Get();
  if (self.next_block > kMaxBlock) {  // numbers are used up: forget everything
    self.Forget();
    self.next_block = self.first_block = 1;
  }
  self.moment = {};
  self.moment.block = self.next_block++ & kMaxBlock;
  self.warp_operations = {};
  self.shared = shared;
}

void StartThread(int index, const Fiber* fiber) {
  Detector& self = Detector::Get();
  self.moment.thread = static_cast<unsigned>(index) & 1023u;
  self.fiber = fiber;
}

void PassBarrier() { ++Detector::Get().moment.barriers; }

void PassWarpOperation(int warp) { ++Detector::Get().warp_operations[static_cast<size_t>(warp)]; }

bool Access(const void* address, size_t bytes, bool is_write) {
  Detector& self = Detector::Get();
  if (self.fiber->Owns(address)) return true;
  self.address = address;
  self.bytes = bytes;
  self.is_write = is_write;
  self.in_shared = self.shared->IsNear(address);
  if (self.in_shared && !self.shared->Contains(address, bytes)) {
    self.met_kind = nullptr;
    return false;
  }
  Record now = self.moment;
  now.warp_operations = self.warp_operations[now.thread / 32];
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + bytes;
  for (uintptr_t at = begin - begin % kCellBytes; at < end; at += kCellBytes) {
    const unsigned mask = (at >= begin ? 1u : 0u) | (at + 1 < end ? 2u : 0u);
    now.bytes = mask & 3u;
    Cell& cell = self.CellOf(at);
    if (!(is_write ? self.Write(cell, now) : self.Read(cell, now))) return false;
  }
  return true;
}

std::string LastRace() {
  const Detector& self = Detector::Get();
  const std::string access =
      absl::StrCat(self.is_write ? "writes " : "reads ", self.bytes, " bytes");
  if (self.met_kind == nullptr) {
    return absl::StrCat(access, " outside of shared memory: ", self.shared->Describe(self.address));
  }
  const std::string other =
      self.met.block != self.moment.block
          ? "another block of the launch"
          : absl::StrCat("thread ", uint64_t{self.met.thread}, " with no barrier in between");
  const std::string memory =
      self.in_shared ? absl::StrCat("shared memory (", self.shared->Describe(self.address), ")")
                     : "global memory";
  return absl::StrCat("a race: ", access, " of ", memory, " that were ", self.met_kind, " by ",
                      other);
}

}  // namespace dtrain::host_executor::race
