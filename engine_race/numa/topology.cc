#include "engine_race/numa/topology.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/parallel.h"
#include "engine_race/base/text_file.h"

namespace engine_race::numa {
namespace {

constexpr std::string_view kBlanks = " \t\n";

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// A whole number without anything around it.
bool ParseNumber(std::string_view text, uint64_t* number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end;
}

Status BadFile(const std::string& path, std::string_view text) {
  constexpr size_t kShownBytes = 80;
  return Status::IOError(path + " cannot be parsed: '" + std::string(text.substr(0, kShownBytes)) +
                         "'");
}

// An absent file is an empty list.
Status ReadList(const std::string& path, uint32_t limit, std::vector<uint32_t>* numbers) {
  std::string text;
  ENGINE_RACE_RETURN_IF_ERROR(TryReadTextFile(path, &text));
  return ParseList(text, limit, numbers) ? Status::Ok() : BadFile(path, text);
}

std::string NodeDirectory(const std::string& sysfs_root, uint32_t id) {
  return sysfs_root + "/devices/system/node/node" + std::to_string(id);
}

// What follows `label` up to the end of its line; empty when no line has the label.
std::string_view AfterLabel(std::string_view text, std::string_view label) {
  const size_t found = text.find(label);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = text.substr(found + label.size());
  return Trim(rest.substr(0, rest.find('\n')));
}

// "Node 0 MemTotal:       24684096 kB" among other lines; an absent file is no memory.
Status ReadMemoryBytes(const std::string& path, uint64_t* bytes) {
  *bytes = 0;
  std::string text;
  ENGINE_RACE_RETURN_IF_ERROR(TryReadTextFile(path, &text));
  if (text.empty()) return Status::Ok();
  const std::string_view total = AfterLabel(text, "MemTotal:");
  uint64_t kilobytes = 0;
  if (!total.ends_with(" kB") ||
      !ParseNumber(Trim(total.substr(0, total.size() - 3)), &kilobytes) ||
      kilobytes > (~uint64_t{0} >> 10)) {
    return BadFile(path, text);
  }
  *bytes = kilobytes << 10;
  return Status::Ok();
}

// One number for each online node. An absent file leaves what the kernel assumes without a table.
Status ReadDistances(const std::string& path, size_t own_index, size_t count,
                     std::vector<uint32_t>* distances) {
  distances->assign(count, kRemoteDistance);
  (*distances)[own_index] = kLocalDistance;
  std::string text;
  ENGINE_RACE_RETURN_IF_ERROR(TryReadTextFile(path, &text));
  std::string_view rest = Trim(text);
  if (rest.empty()) return Status::Ok();
  for (size_t i = 0; i < count; ++i) {
    const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
    uint64_t distance = 0;
    if (!ParseNumber(word, &distance) || distance > 0xffff) return BadFile(path, text);
    (*distances)[i] = static_cast<uint32_t>(distance);
    rest = Trim(rest.substr(word.size()));
  }
  return rest.empty() ? Status::Ok() : BadFile(path, text);
}

// A kernel that shows no nodes: one node stands for the machine.
Status ReadWithoutNodes(const std::string& sysfs_root, Topology* topology) {
  Node node;
  node.distances = {kLocalDistance};
  ENGINE_RACE_RETURN_IF_ERROR(
      ReadList(sysfs_root + "/devices/system/cpu/online", kMaxCpuCount, &node.cpus));
  if (node.cpus.empty()) node.cpus = AvailableCpus();
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    node.memory_bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
  }
  topology->nodes.clear();
  topology->nodes.push_back(std::move(node));
  topology->from_kernel = false;
  return Status::Ok();
}

// The list behind `label` in a status file; *numbers are left alone when no line has the label.
Status ReadAllowedList(const std::string& path, std::string_view status, std::string_view label,
                       uint32_t limit, std::vector<uint32_t>* numbers) {
  const std::string_view list = AfterLabel(status, label);
  if (list.empty()) return Status::Ok();
  return ParseList(list, limit, numbers) ? Status::Ok() : BadFile(path, list);
}

}  // namespace

const Node* Topology::Find(uint32_t id) const {
  const auto at =
      std::lower_bound(nodes.begin(), nodes.end(), id,
                       [](const Node& node, uint32_t wanted) { return node.id < wanted; });
  return at != nodes.end() && at->id == id ? &*at : nullptr;
}

uint32_t Topology::Distance(uint32_t from_id, uint32_t to_id) const {
  const Node* const from = Find(from_id);
  const Node* const to = Find(to_id);
  if (from == nullptr || to == nullptr) return kRemoteDistance;
  ENGINE_RACE_ASSERT(from->distances.size() == nodes.size());
  return from->distances[static_cast<size_t>(to - nodes.data())];
}

std::optional<uint32_t> Topology::NodeOfCpu(uint32_t cpu) const {
  for (const Node& node : nodes) {
    if (std::binary_search(node.cpus.begin(), node.cpus.end(), cpu)) return node.id;
  }
  return std::nullopt;
}

bool ParseList(std::string_view text, uint32_t limit, std::vector<uint32_t>* numbers) {
  numbers->clear();
  std::string_view rest = Trim(text);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const size_t dash = item.find('-');
    uint64_t first = 0;
    if (!ParseNumber(item.substr(0, dash), &first)) return false;
    uint64_t last = first;
    if (dash != std::string_view::npos && !ParseNumber(item.substr(dash + 1), &last)) return false;
    if (last < first || last >= limit) return false;
    for (uint64_t number = first; number <= last; ++number) {
      numbers->push_back(static_cast<uint32_t>(number));
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return false;
  }
  std::sort(numbers->begin(), numbers->end());
  numbers->erase(std::unique(numbers->begin(), numbers->end()), numbers->end());
  return true;
}

std::string FormatList(const std::vector<uint32_t>& numbers) {
  std::string text;
  for (size_t begin = 0; begin < numbers.size();) {
    size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[begin]);
    if (end - begin > 1) text += '-' + std::to_string(numbers[end - 1]);
    begin = end;
  }
  return text;
}

Status ReadTopology(const std::string& sysfs_root, Topology* topology) {
  std::vector<uint32_t> ids;
  ENGINE_RACE_RETURN_IF_ERROR(
      ReadList(sysfs_root + "/devices/system/node/online", kMaxNodeCount, &ids));
  if (ids.empty()) return ReadWithoutNodes(sysfs_root, topology);
  Topology read;
  read.from_kernel = true;
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string directory = NodeDirectory(sysfs_root, ids[i]);
    Node node;
    node.id = ids[i];
    ENGINE_RACE_RETURN_IF_ERROR(ReadList(directory + "/cpulist", kMaxCpuCount, &node.cpus));
    ENGINE_RACE_RETURN_IF_ERROR(ReadMemoryBytes(directory + "/meminfo", &node.memory_bytes));
    ENGINE_RACE_RETURN_IF_ERROR(
        ReadDistances(directory + "/distance", i, ids.size(), &node.distances));
    read.nodes.push_back(std::move(node));
  }
  *topology = std::move(read);
  return Status::Ok();
}

Status ReadAllowed(const std::string& task_dir, const Topology& topology, Allowed* allowed) {
  Allowed read;
  for (const Node& node : topology.nodes) {
    read.nodes.push_back(node.id);
    read.cpus.insert(read.cpus.end(), node.cpus.begin(), node.cpus.end());
  }
  std::sort(read.cpus.begin(), read.cpus.end());
  const std::string path = task_dir + "/status";
  const std::string status = ReadTextFile(path);
  ENGINE_RACE_RETURN_IF_ERROR(
      ReadAllowedList(path, status, "Cpus_allowed_list:", kMaxCpuCount, &read.cpus));
  ENGINE_RACE_RETURN_IF_ERROR(
      ReadAllowedList(path, status, "Mems_allowed_list:", kMaxNodeCount, &read.nodes));
  *allowed = std::move(read);
  return Status::Ok();
}

}  // namespace engine_race::numa
