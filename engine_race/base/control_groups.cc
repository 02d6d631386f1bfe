#include "engine_race/base/control_groups.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace engine_race {
namespace {

// Groups above one another that are looked at.
constexpr uint32_t kMaxDepth = 256;

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool Contains(const std::vector<std::string_view>& parts, std::string_view part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

// A hierarchy of groups that is mounted somewhere.
struct Hierarchy {
  bool unified = false;  // cgroup v2
  // The group that the mount point shows, and the mount point.
  std::string root;
  std::string mount_point;
};

// mountinfo writes blanks and the like as \040.
std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '\\' && i + 4 <= text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 3, code, 8).ptr == &text[i + 1] + 3) {
      plain.push_back(static_cast<char>(code));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// The mounts of cgroup v2 and of a controller of v1. A line is
// "36 35 0:31 ROOT MOUNT_POINT OPTIONS [TAGS...] - TYPE SOURCE SUPER_OPTIONS".
std::vector<Hierarchy> FindHierarchies(std::string_view mountinfo, std::string_view controller) {
  constexpr size_t kRootField = 3;
  constexpr size_t kMountPointField = 4;
  std::vector<Hierarchy> found;
  for (const std::string_view line : Split(mountinfo, '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const std::vector<std::string_view> fields = Split(line.substr(0, dash), ' ');
    const std::vector<std::string_view> type = Split(line.substr(dash + 3), ' ');
    if (fields.size() <= kMountPointField || type.size() < 3) continue;
    const bool unified = type[0] == "cgroup2";
    if (!unified && (type[0] != "cgroup" || !Contains(Split(type[2], ','), controller))) continue;
    found.push_back({unified, Unescape(fields[kRootField]), Unescape(fields[kMountPointField])});
  }
  return found;
}

// The process's group in the unified hierarchy, or in that of a controller of v1. A line is
// "HIERARCHY:CONTROLLERS:PATH", "0::PATH" for the unified one; a path may have colons in it.
std::optional<std::string> GroupOf(std::string_view cgroup, std::string_view controller,
                                   bool unified) {
  for (const std::string_view line : Split(cgroup, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool matches = unified ? line.substr(0, first) == "0" && controllers.empty()
                                 : Contains(Split(controllers, ','), controller);
    if (matches) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

// Where the group lies below the mount point: "" or "/a/b". A container may see the whole path of
// its group on the host while only that group is mounted. It may also see a group outside of what
// is mounted. Then only the mount point can be looked at.
std::string BelowMount(const Hierarchy& hierarchy, const std::string& group) {
  std::string below = group;
  if (hierarchy.root != "/") {
    if (!group.starts_with(hierarchy.root)) return {};
    below = group.substr(hierarchy.root.size());
  }
  while (!below.empty() && below.back() == '/') below.pop_back();
  const bool outside =
      !below.empty() && (below.front() != '/' || Contains(Split(below, '/'), ".."));
  return outside ? std::string() : below;
}

}  // namespace

void VisitControlGroups(const FileReaderFn& read, std::string_view controller, GroupFn visit) {
  const std::string cgroup = read("/proc/self/cgroup");
  for (const Hierarchy& hierarchy : FindHierarchies(read("/proc/self/mountinfo"), controller)) {
    const std::optional<std::string> group = GroupOf(cgroup, controller, hierarchy.unified);
    if (!group) continue;
    std::string below = BelowMount(hierarchy, *group);
    for (uint32_t depth = 0; depth < kMaxDepth; ++depth) {
      visit(hierarchy.mount_point + below, hierarchy.unified);
      if (below.empty()) break;
      below.resize(below.rfind('/'));
    }
  }
}

}  // namespace engine_race
