// onednn.h - the one place where oneDNN 2 and oneDNN 3 differ.
// SPDX-License-Identifier: Apache-2.0
#ifndef DTRAIN_OPS_INTERNAL_ONEDNN_H_
#define DTRAIN_OPS_INTERNAL_ONEDNN_H_

#include <oneapi/dnnl/dnnl.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace dtrain::internal {

// Describes c = a * b + bias, or c = a * b if `bias` is null. oneDNN 3 has no operation descriptors
// any more: the primitive's descriptor takes their arguments.
inline dnnl::matmul::primitive_desc DescribeMatmul(const dnnl::engine& engine,
                                                   const dnnl::memory::desc& a,
                                                   const dnnl::memory::desc& b,
                                                   const dnnl::memory::desc* bias,
                                                   const dnnl::memory::desc& c,
                                                   const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return bias != nullptr ? dnnl::matmul::primitive_desc(engine, a, b, *bias, c, attributes)
                         : dnnl::matmul::primitive_desc(engine, a, b, c, attributes);
#else
  const dnnl::matmul::desc product =
      bias != nullptr ? dnnl::matmul::desc(a, b, *bias, c) : dnnl::matmul::desc(a, b, c);
  return dnnl::matmul::primitive_desc(product, attributes, engine);
#endif
}

}  // namespace dtrain::internal

#endif  // DTRAIN_OPS_INTERNAL_ONEDNN_H_
