// The marker of a path is of one store: both its ids are compared.
#include "engine_race/log/path_marker.h"

#include <gtest/gtest.h>

#include "engine_race/base/sys.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

TEST(PathMarkerTest, IsOfTheStoreWithBothIds) {
  const TempDir dir;
  UniqueFd fd;
  ASSERT_TRUE(sys::OpenDirectory(dir.path(), /*create=*/false, &fd).ok());
  StoreIdentity identity;
  identity.store_id = 7;
  identity.paths = {"/a", "/b"};
  for (const bool is_clone : {false, true}) {
    if (is_clone) identity.other_seed_id = 9;
    ASSERT_TRUE(WritePathMarker(fd.get(), identity, 1, 0600).ok());
    format::PathMarker marker;
    ASSERT_TRUE(ReadPathMarker(fd.get(), &marker).ok());
    EXPECT_EQ(marker.path_index, 1u);
    EXPECT_EQ(marker.lineage == 0, !is_clone);
    EXPECT_TRUE(IsMarkerOf(marker, identity.ids()));
    EXPECT_FALSE(IsMarkerOf(marker, {8, identity.seed_id()}));
    EXPECT_FALSE(IsMarkerOf(marker, {7, identity.seed_id() + 1}));
  }
}

}  // namespace
}  // namespace engine_race::test
