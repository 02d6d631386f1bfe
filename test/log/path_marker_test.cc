// The marker of a path says which path of which store it is, and is refused in another format.
#include "engine_race/log/path_marker.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "engine_race/base/checksum.h"
#include "engine_race/base/sys.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

class PathMarkerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(sys::OpenDirectory(dir_.path(), /*create=*/false, &fd_).ok());
    StoreIdentity identity;
    identity.store_id = 7;
    identity.paths = {"/a", "/b"};
    ASSERT_TRUE(WritePathMarker(fd_.get(), identity, 1, 0600).ok());
    ASSERT_TRUE(ReadPathMarker(fd_.get(), &marker_).ok());
  }

  const TempDir dir_;
  UniqueFd fd_;
  format::PathMarker marker_{};
};

TEST_F(PathMarkerTest, NamesTheStoreAndThePlaceOfThePath) {
  EXPECT_EQ(marker_.store_id, 7u);
  EXPECT_EQ(marker_.path_index, 1u);
  EXPECT_EQ(marker_.path_count, 2u);
}

TEST_F(PathMarkerTest, AnotherVersionIsNotSupported) {
  UniqueFd file;
  ASSERT_TRUE(sys::OpenAt(fd_.get(), format::kMarkerName, O_RDWR, 0, &file).ok());
  for (const uint32_t version : {2, 3, 4}) {
    marker_.format_version = version;
    marker_.checksum =
        Hash64(&marker_, offsetof(format::PathMarker, checksum), format::kMarkerMagic);
    ASSERT_TRUE(sys::PwriteFull(file.get(), &marker_, sizeof(marker_), 0).ok());
    format::PathMarker read;
    EXPECT_EQ(ReadPathMarker(fd_.get(), &read).code(), Code::kNotSupported) << version;
  }
}

}  // namespace
}  // namespace engine_race::test
