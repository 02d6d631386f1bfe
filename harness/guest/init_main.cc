// The first process of a guest. pc_test says which test: "nvme" or "numa" (system.h), or nothing
// for a power cut (power_plan.h).
#include "harness/guest/power_plan.h"
#include "harness/guest/system.h"

int main() {
  engine_race::guest::MountSystem();
  if (engine_race::guest::Argument("pc_test") == "nvme") engine_race::guest::RunNvmeTest();
  if (engine_race::guest::Argument("pc_test") == "numa") engine_race::guest::RunNumaTest();
  engine_race::powercut::Run();
}
