# Groups sources into unity files: one compilation parses the headers of 6 to 12 sources once.
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

function end_group(    unity, path, old, line, text, i, folder) {
  if (count == 0) return
  # Alone a source needs no unity file.
  if (count > 1) {
    unity = group[1]
    for (i = 1; i <= count; ++i) {
      print group[i] "=" unity
      text = text "#include \"" group[i] "\"\n"
    }
    path = out "/" unity
    while ((getline line < path) > 0) old = old line "\n"
    close(path)
    if (old != text && !dry) {
      folder = path
      sub(/[^\/]*$/, "", folder)
      system("mkdir -p " folder)
      printf "%s", text > path
      close(path)
    }
  }
  count = 0
}

{
  source = $0
  sub(/^[^:]*:/, "", source)
  class = $0
  sub(/[^\/]*$/, "", class)
  if (class != last_class) end_group()
  last_class = class
  group[++count] = source
  if (count == 12 || (count >= 6 && hash_of(source) % 4 == 0)) end_group()
}
END { end_group() }
