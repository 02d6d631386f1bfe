// Which kernels the running CPU can execute.
//
// A kernel file is compiled with every flag that the Makefile gives to files of its name. The
// compiler may use those instructions anywhere in the file. So each flag has a field here.
//
// Pure functions, thread-safe.
#ifndef ENGINE_RACE_BASE_CPU_FEATURES_H_
#define ENGINE_RACE_BASE_CPU_FEATURES_H_

namespace engine_race {

struct CpuFeatures {
  bool avx2 = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512vl = false;
};

// Of the CPU that this runs on, as far as the system also saves the registers.
inline CpuFeatures RunningCpuFeatures() {
  CpuFeatures features;
#ifdef __x86_64__
  // __builtin_cpu_supports also asks xgetbv: a system that does not save the wide registers
  // answers no.
  features.avx2 = __builtin_cpu_supports("avx2") != 0;
  features.avx512f = __builtin_cpu_supports("avx512f") != 0;
  features.avx512bw = __builtin_cpu_supports("avx512bw") != 0;
  features.avx512vl = __builtin_cpu_supports("avx512vl") != 0;
#endif
  return features;
}

// Whether files named *_avx2.cc and *_avx512.cc run: avx2_flags and avx512_flags in the Makefile.
constexpr bool RunsAvx2Kernels(const CpuFeatures& features) { return features.avx2; }
constexpr bool RunsAvx512Kernels(const CpuFeatures& features) {
  return features.avx2 && features.avx512f && features.avx512bw && features.avx512vl;
}

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_CPU_FEATURES_H_
