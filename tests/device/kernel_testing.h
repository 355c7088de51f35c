// kernel_testing.h - starts small kernels on the host executor and keeps what it says of them.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_TESTS_DEVICE_KERNEL_TESTING_H_
#define DTRAIN_TESTS_DEVICE_KERNEL_TESTING_H_

#include <string>
#include <vector>

#include "dtrain/device/cuda/launch.cuh"

namespace dtrain::testing {

// Empty, or the text of the error that ended the launch.
template <typename Params>
std::string ErrorOf(void (*kernel)(Params), const LaunchShape& shape, Params params) {
  Stream stream;
  try {
    Launch(kernel, shape, params, stream);
  } catch (const host_executor::Error& error) {
    return error.what();
  }
  return "";
}

inline const std::vector<host_executor::Order>& AllOrders() {
  using Order = host_executor::Order;
  static const std::vector<Order> orders = {
      {},
      {.kind = Order::Kind::kReverse},
      {.kind = Order::Kind::kShuffled, .seed = 7},
  };
  return orders;
}

}  // namespace dtrain::testing

#endif  // DTRAIN_TESTS_DEVICE_KERNEL_TESTING_H_
