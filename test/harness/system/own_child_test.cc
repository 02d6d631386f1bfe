#include "harness/system/own_child.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace engine_race::harness {
namespace {

using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;

Status Double(const nlohmann::json& order, nlohmann::json* answer) {
  if (order.contains("bad")) return Status::IOError(order.at("bad"));
  (*answer)["twice"] = order.at("number").get<int>() * 2;
  if (order.contains("note")) (*answer)["error"] = order.at("note");
  return Status::Ok();
}

const ChildWorks kWorks = {{"double", Double}};

class OwnChildTest : public ::testing::Test {
 protected:
  // Runs a child's main in this process.
  std::optional<int> Main(const std::string& work, const std::string& order,
                          const std::string& parent = "0") {
    std::vector<std::string> args = {"program", "--child", work, order, parent};
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    CaptureStdout();
    const std::optional<int> code = ChildMain(static_cast<int>(argv.size()), argv.data(), kWorks);
    printed_ = GetCapturedStdout();
    return code;
  }
  std::string error() const { return ParseAnswer(printed_).value().value("error", ""); }

  std::string printed_;
};

TEST_F(OwnChildTest, OtherArgumentsAreNoChilds) {
  std::string words[] = {"program", "--children", "double", "{}", "0"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  EXPECT_FALSE(ChildMain(5, argv.data(), kWorks).has_value());
  words[1] = "--child";
  argv[1] = words[1].data();
  EXPECT_FALSE(ChildMain(2, argv.data(), kWorks).has_value());
}

TEST_F(OwnChildTest, AnswersItsOrder) {
  EXPECT_EQ(Main("double", R"({"number": 21})"), 0);
  EXPECT_EQ(ParseAnswer(printed_).value().at("twice"), 42);
}

TEST_F(OwnChildTest, AFailureIsAnError) {
  EXPECT_EQ(Main("double", R"({"bad": "block"})"), 1);
  EXPECT_NE(error().find("block"), std::string::npos);
  EXPECT_EQ(Main("double", R"({"number": 1, "note": "not closed"})"), 1);
  EXPECT_EQ(error(), "not closed");
}

TEST_F(OwnChildTest, AWrongOrderIsNotRun) {
  for (const char* order : {"{}", "{", "7"}) EXPECT_EQ(Main("double", order), 2) << order;
  EXPECT_EQ(Main("triple", "{}"), 2);
  EXPECT_NE(error().find("triple"), std::string::npos);
}

TEST_F(OwnChildTest, AnOrphanDoesNotBegin) {
  EXPECT_EQ(Main("double", R"({"number": 1})", std::to_string(::getpid())), 2);
  EXPECT_EQ(printed_, "");
}

TEST(ChildAnswerTest, IsTheLastLine) {
  EXPECT_EQ(ParseAnswer("a library's line\n{\"a\": 1}\n").value().at("a"), 1);
  for (const char* text : {"", "\n", "{", "[]", "7", "{}\nlater"}) {
    EXPECT_FALSE(ParseAnswer(text)) << text;
  }
}

TEST(ChildAnswerTest, MayNameAPathOfAnyBytes) {
  CaptureStdout();
  PrintAnswer({{"error", "open /\xff"}});
  EXPECT_TRUE(ParseAnswer(GetCapturedStdout()));
}

TEST(ChildCommandTest, IsThisProgramAgain) {
  const std::vector<std::string> command = ChildCommand("double", {{"number", 3}}, 7);
  EXPECT_EQ(command[2], "double");
  EXPECT_EQ(command[3], R"({"number":3})");
  EXPECT_EQ(command[4], "7");
}

}  // namespace
}  // namespace engine_race::harness
