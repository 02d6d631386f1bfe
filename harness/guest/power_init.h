// The init of a power-cut guest. It verifies the store on /dev/nvme0n1 as the last cut left it,
// then loads it until the next cut.
//
// scripts/powercut.py boots it and reads its lines on the serial console. The kernel's command line
// has
//   pc_seed         of the plan
//   pc_ledger       where on the device the ledger begins, bytes
//   pc_load         1: load after the verification; otherwise the guest powers off
//   pc_mode         none, group or every
//   pc_sync_ms, pc_pace_us, pc_operations   the load, see LoadPlan
//   pc_writeback    of the kernel, in centiseconds: how soon it writes dirty pages by itself
//   pc_reset_from   mount or load: resets the machine pc_reset_ms after that
#ifndef HARNESS_GUEST_POWER_INIT_H_
#define HARNESS_GUEST_POWER_INIT_H_

namespace engine_race::powercut {

[[noreturn]] void Run();

}  // namespace engine_race::powercut

#endif  // HARNESS_GUEST_POWER_INIT_H_
