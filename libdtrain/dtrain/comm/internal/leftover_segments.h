// leftover_segments.h - removes the shared memory that killed MPI jobs left in /dev/shm.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_COMM_INTERNAL_LEFTOVER_SEGMENTS_H_
#define DTRAIN_COMM_INTERNAL_LEFTOVER_SEGMENTS_H_

#include <cstdint>
#include <string>

namespace dtrain::internal {

struct LeftoverSegments {
  int count = 0;
  int64_t bytes = 0;
};

// Open MPI keeps a segment for each rank in /dev/shm (4: "vader_segment.HOST.UID.JOB.RANK", 4 MiB;
// 5: "sm_segment...", 16 MiB) and removes it at the job's end, but not when the ranks are killed.
// This removes the segments in `directory` that belong to this host and user, are older than
// `min_age_seconds`, and that no process has mapped. Removes nothing where a process of this user
// cannot be examined.
LeftoverSegments RemoveLeftoverSegments(const std::string& directory, const std::string& host,
                                        double min_age_seconds);

}  // namespace dtrain::internal

#endif  // DTRAIN_COMM_INTERNAL_LEFTOVER_SEGMENTS_H_
