// The lines of a shell: of a person at a terminal, or of any other standard input.
//
// At a terminal it prompts. Where libedit was there to build with, lines can be edited and called
// back, and the tab key completes names of commands and files. One object at a time.
#ifndef HARNESS_TOOLS_STORE_PROMPT_H_
#define HARNESS_TOOLS_STORE_PROMPT_H_

#include <optional>
#include <string>
#include <vector>

namespace engine_race::harness {

class Prompt {
 public:
  // `commands` are completed at the start of a line.
  explicit Prompt(std::vector<std::string> commands);

  bool is_at_terminal() const { return is_at_terminal_; }
  // The next line; nothing at the end of the input.
  std::optional<std::string> Next();

 private:
  const bool is_at_terminal_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_TOOLS_STORE_PROMPT_H_
