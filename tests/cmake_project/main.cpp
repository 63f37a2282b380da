// Looks up one problem on one arch: `example gfx942 4096 1024`.
#include <cstdlib>
#include <iostream>

#include "attn_fwd.h"

using namespace example::tables;

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto arch = find_arch(argv[1]);
  if (!arch) {
    std::cout << "unknown arch\n";
    return 1;
  }
  attn_fwd::Params params;
  params.Q_dtype = attn_fwd::Q_dtype_t::bf16;
  params.BLOCK_DMODEL = 128;
  params.Max_seqlen_q = std::atoll(argv[2]);
  params.Max_seqlen_k = std::atoll(argv[3]);
  const Result result = attn_fwd::lookup(*arch, params);
  if (result.status != Status::kernel) {
    std::cout << "no config\n";
    return 1;
  }
  const attn_fwd::Config& config = *attn_fwd::config(*arch, result.index);
  std::cout << arch_name(*arch) << " BLOCK_M=" << config.BLOCK_M << " " << attn_fwd::image_name(params, config) << "\n";
  return 0;
}
