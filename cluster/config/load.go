package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxFileBytes bounds the configuration file and the password file.
const maxFileBytes = 16 << 20

const enginePrefix = "engine."

// Load reads the settings from the file, puts the overrides over them, and validates the result.
// It also reads every file that the settings name, so that a bad one is refused at the start. An
// empty path stands for an empty file. Overrides are texts by setting: "raft.rtt_ms", "node_id".
func Load(path string, overrides map[string]string) (*Config, error) {
	c, err := LoadSettings(path, overrides)
	if err != nil {
		return nil, err
	}
	if err := c.checkFiles(); err != nil {
		return nil, fmt.Errorf("configuration refused: %w", err)
	}
	return c, nil
}

// LoadSettings does what Load does, but opens no file except the configuration file. It suits
// programs that may not read the node's keys and passwords.
func LoadSettings(path string, overrides map[string]string) (*Config, error) {
	c := Default()
	if path != "" {
		if err := c.readFile(path); err != nil {
			return nil, fmt.Errorf("configuration file %s: %w", path, err)
		}
	}
	if err := c.override(overrides); err != nil {
		return nil, err
	}
	if err := c.makePathsAbsolute(); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("configuration refused: %w", err)
	}
	return c, nil
}

func (c *Config) readFile(path string) error {
	text, info, err := readBounded(path)
	if err != nil {
		return err
	}
	metadata, err := toml.Decode(string(text), c)
	if err != nil {
		return err
	}
	if unknown := metadata.Undecoded(); len(unknown) > 0 {
		names := make([]string, len(unknown))
		for i, key := range unknown {
			names[i] = key.String()
		}
		return fmt.Errorf("unknown settings: %s", strings.Join(names, ", "))
	}
	if err := checkCase(metadata.Keys()); err != nil {
		return err
	}
	// The decoder ignores a value that is no table, and clients would need no password.
	for _, key := range metadata.Keys() {
		if strings.EqualFold(key.String(), "auth.users") && metadata.Type(key...) != "Hash" {
			return errors.New("auth.users: must be a table, such as {default = \"sha256:<hex>\"}")
		}
	}
	if len(c.Auth.Users) > 0 {
		return checkMode("auth.users", path, info)
	}
	return nil
}

// checkCase refuses names of settings that are not in lower case. The decoder takes them. Of two
// that differ in case it would take the one that chance chooses. Names of users are free.
func checkCase(keys []toml.Key) error {
	for _, key := range keys {
		name := key.String()
		if len(key) > 2 && strings.EqualFold(key[0]+"."+key[1], "auth.users") {
			name = key[0] + "." + key[1]
		}
		if lower := strings.ToLower(name); name != lower {
			return fmt.Errorf("unknown setting: %s; its name is %s", name, lower)
		}
	}
	return nil
}

// readBounded returns the file's contents, and what the file system says about the opened file.
func readBounded(path string) ([]byte, os.FileInfo, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > maxFileBytes {
		return nil, nil, fmt.Errorf("is longer than %d bytes", maxFileBytes)
	}
	return text, info, nil
}

// checkMode refuses a file with secrets that users other than its owner and group can read, or
// that users other than its owner can change.
func checkMode(setting, path string, info os.FileInfo) error {
	const forbidden = 0o026
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return fmt.Errorf("%s: %s has mode %#o, so other users can read or change it: "+
			"set 0600 or 0640", setting, path, mode)
	}
	return nil
}

func (c *Config) makePathsAbsolute() error {
	for _, path := range []*string{&c.DataDir, &c.BackupDir, &c.SecretFile} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("%s: %w", *path, err)
		}
		*path = absolute
	}
	return nil
}

// setting is one scalar of a Config.
type setting struct {
	name  string // as in "raft.rtt_ms"
	value reflect.Value
}

// fileOnly says whether a setting may not be overridden. Permissions that weaken security must be
// visible in the file.
func (s setting) fileOnly() bool {
	return s.name == "allow_insecure" || s.name == "allow_plain_metrics"
}

// scalars lists the settings of c that are one text, number or boolean, in the order of the file.
func (c *Config) scalars() []setting { return scalarsOf("", reflect.ValueOf(c).Elem()) }

func scalarsOf(prefix string, structure reflect.Value) []setting {
	var found []setting
	for i := range structure.NumField() {
		field := structure.Field(i)
		name := prefix + structure.Type().Field(i).Tag.Get("toml")
		switch field.Kind() {
		case reflect.Struct:
			found = append(found, scalarsOf(name+".", field)...)
		case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64:
			found = append(found, setting{name: name, value: field})
		}
	}
	return found
}

// set parses the text into the setting.
func (s setting) set(text string) error {
	var err error
	switch s.value.Kind() {
	case reflect.String:
		s.value.SetString(text)
	case reflect.Bool:
		var parsed bool
		if parsed, err = strconv.ParseBool(text); err == nil {
			s.value.SetBool(parsed)
		}
	case reflect.Uint64:
		var parsed uint64
		if parsed, err = strconv.ParseUint(text, 10, 64); err == nil {
			s.value.SetUint(parsed)
		}
	default:
		var parsed int64
		if parsed, err = strconv.ParseInt(text, 10, s.value.Type().Bits()); err == nil {
			s.value.SetInt(parsed)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %q is no %s in range", s.name, text, s.value.Kind())
	}
	return nil
}

func (c *Config) override(overrides map[string]string) error {
	byName := make(map[string]setting)
	for _, s := range c.scalars() {
		byName[s.name] = s
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		s, known := byName[name]
		switch {
		case strings.HasPrefix(name, enginePrefix) && name != enginePrefix:
			c.Engine[strings.TrimPrefix(name, enginePrefix)] = overrides[name]
		case !known:
			problems = append(problems, fmt.Errorf("unknown setting: %s", name))
		case s.fileOnly():
			problems = append(problems, fmt.Errorf("%s: can be set in the file only", name))
		default:
			problems = append(problems, s.set(overrides[name]))
		}
	}
	return errors.Join(problems...)
}

// AddFlags defines a flag --section.name for each scalar setting, and --engine.name for each option
// of the engine that occurs in the arguments. The map fills as the set parses them; it suits Load.
func AddFlags(flags *flag.FlagSet, arguments []string) map[string]string {
	overrides := make(map[string]string)
	add := func(name, usage string) {
		flags.Func(name, usage, func(text string) error {
			overrides[name] = text
			return nil
		})
	}
	for _, s := range Default().scalars() {
		if !s.fileOnly() {
			add(s.name, fmt.Sprintf("overrides the setting; its default is %q",
				fmt.Sprint(s.value.Interface())))
		}
	}
	for _, argument := range arguments {
		if argument == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		isFlag := strings.HasPrefix(argument, "-") && strings.HasPrefix(name, enginePrefix)
		if isFlag && flags.Lookup(name) == nil {
			add(name, "sets an option of the engine")
		}
	}
	return overrides
}
