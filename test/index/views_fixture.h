// A registry of views by itself.
#ifndef TEST_INDEX_VIEWS_FIXTURE_H_
#define TEST_INDEX_VIEWS_FIXTURE_H_

#include <gtest/gtest.h>

#include "engine_race/index/views.h"

namespace engine_race::test {

using View = ViewRegistry::View;

// Closes the registry at the end.
class ViewsTest : public ::testing::Test {
 protected:
  ViewsTest() { EXPECT_TRUE(ViewRegistry::Create(&views_).ok()); }
  ~ViewsTest() override {
    if (views_ != nullptr) views_->Close();
  }
  View Take() {
    View view;
    EXPECT_TRUE(views_->Take(&view).ok());
    return view;
  }

  ViewRegistry* views_ = nullptr;
};

}  // namespace engine_race::test

#endif  // TEST_INDEX_VIEWS_FIXTURE_H_
