// kernel_name.h - the name of a function, from its address.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTING_HOST_EXECUTOR_KERNEL_NAME_H_
#define DTRAIN_TESTING_HOST_EXECUTOR_KERNEL_NAME_H_

#include <string>

namespace dtrain::host_executor {

// As C++ spells it, from the symbol table of the file it was loaded from (functions of unnamed
// namespaces too); the address in hexadecimal where that has no such symbol.
std::string KernelName(const void* address);

}  // namespace dtrain::host_executor

#endif  // DTRAIN_TESTING_HOST_EXECUTOR_KERNEL_NAME_H_
