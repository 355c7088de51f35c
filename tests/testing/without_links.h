// without_links.h - a process for which no file system has symbolic links.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_WITHOUT_LINKS_H_
#define DTRAIN_TESTING_WITHOUT_LINKS_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>

namespace dtrain::testing {

// From now on symlink() fails as it does on exFAT. For a process made for that: there is no way
// back. False where the kernel refuses.
inline bool ForbidLinks() {
#ifdef SYS_symlink
  constexpr unsigned kLink = SYS_symlink;
#else
  constexpr unsigned kLink = SYS_symlinkat;
#endif
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kLink, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_symlinkat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTING_WITHOUT_LINKS_H_
