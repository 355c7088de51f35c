// host.h - the name of this machine.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_BASE_HOST_H_
#define DTRAIN_BASE_HOST_H_

#include <string>

namespace dtrain {

// The host name, or "localhost" if the system does not report one.
std::string HostName();

}  // namespace dtrain

#endif  // DTRAIN_BASE_HOST_H_
