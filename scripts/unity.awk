# Groups sources into unity files: one compilation parses the headers of 14 to 29 sources once. A folder
# with fewer has one unity file.
#
# Each line of the input is SOURCE or CLASS:SOURCE, and lines of one class and folder come together.
# Only these share a unity file. A group ends after a source whose name's hash says so: an added or
# removed source then changes its own group and at most the next ones, not all that follow. For each
# source the script prints SOURCE=UNITY, where UNITY is the unity file below `out` that includes it.
# Unless `dry` is set, it writes each unity file whose text has changed.
BEGIN { for (i = 1; i < 128; ++i) code[sprintf("%c", i)] = i }

function hash_of(name,    i, hash) {
  for (i = 1; i <= length(name); ++i) hash = (hash * 31 + code[substr(name, i, 1)]) % 65521
  return hash
}

# The sources from `first` to `last` of a folder.
function write_group(first, last,    unity, path, old, line, text, i, folder) {
  # Alone a source needs no unity file.
  if (first == last) return
  unity = sources[first]
  for (i = first; i <= last; ++i) {
    print sources[i] "=" unity
    text = text "#include \"" sources[i] "\"\n"
  }
  path = out "/" unity
  while ((getline line < path) > 0) old = old line "\n"
  close(path)
  if (old == text || dry) return
  folder = path
  sub(/[^\/]*$/, "", folder)
  system("mkdir -p " folder)
  printf "%s", text > path
  close(path)
}

function end_folder(    first, i, size) {
  first = 1
  for (i = 1; i <= count; ++i) {
    size = i - first + 1
    # The few sources that would be left share the last group.
    if (i < count && (count - i < 6 || size < 14 || (size < 24 && hash_of(sources[i]) % 4 != 0))) continue
    write_group(first, i)
    first = i + 1
  }
  count = 0
}

{
  source = $0
  sub(/^[^:]*:/, "", source)
  class = $0
  sub(/[^\/]*$/, "", class)
  if (class != last_class) end_folder()
  last_class = class
  sources[++count] = source
}
END { end_folder() }
