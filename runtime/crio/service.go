package crio

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Unit is the unit of CRI-O in its packages, of Debian, Fedora and upstream.
const Unit = "crio.service"

// UnitDirs returns the folders of systemd's units, the first of which counts: systemd.unit(5).
func UnitDirs() []string {
	return []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
		"/usr/lib/systemd/system", "/lib/systemd/system"}
}

// Source is a file, and its content.
type Source struct {
	Name    string
	Content []byte
}

// Service is how systemd starts CRI-O, as its unit and the drop-ins of that say: systemd.service(5), systemd.exec(5).
type Service struct {
	// Program is the path of CRI-O, "" if the unit names none.
	Program string
	args    []setting
	env     map[string]setting
}

// setting is a word of the command line, or a variable, and the file that it comes from.
type setting struct{ text, by string }

// FindService finds out how systemd starts CRI-O on a machine. read reads a file of it, and is empty if there is none.
func FindService(machine fs.FS, read func(name string) ([]byte, error)) (Service, error) {
	found := map[string]Source{} // by the name of the file: a drop-in, or the unit itself
	for _, dir := range slices.Backward(UnitDirs()) {
		dropins, _ := fs.Glob(machine, path.Join(dir, Unit+".d/*.conf")[1:]) // the pattern is valid
		for _, name := range append([]string{path.Join(dir, Unit)}, dropins...) {
			name = path.Join("/", name)
			content, err := read(name)
			if err != nil {
				return Service{}, err
			}
			if base := path.Base(name); base != Unit || len(content) > 0 {
				found[base] = Source{name, content}
			}
		}
	}
	files := []Source{found[Unit]}
	delete(found, Unit)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		files = append(files, found[name])
	}
	return ReadService(files, read)
}

// ReadService reads a unit, and its drop-ins in the order in which systemd reads them. environment reads a file of
// variables that they name; it is empty if there is none.
func ReadService(files []Source, environment func(name string) ([]byte, error)) (Service, error) {
	s := Service{env: map[string]setting{}}
	var command setting
	var variables []string
	for _, file := range files {
		section := ""
		for line := range strings.Lines(strings.ReplaceAll(string(file.Content), "\\\n", " ")) {
			line = strings.TrimSpace(line)
			key, value, _ := strings.Cut(line, "=")
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			switch {
			case strings.HasPrefix(line, "["):
				section = line
			case section != "[Service]":
			case key == "ExecStart" && value == "":
				command = setting{}
			case key == "ExecStart" && command.text == "": // of several, systemd accepts none but for a oneshot
				command = setting{value, file.Name}
			case key == "Environment":
				s.set(file.Name, words(value))
			case key == "EnvironmentFile" && value == "":
				variables = nil
			case key == "EnvironmentFile":
				variables = append(variables, strings.TrimPrefix(value, "-"))
			}
		}
	}
	for _, file := range variables { // they win over Environment=
		content, err := environment(file)
		if err != nil {
			return s, err
		}
		for line := range strings.Lines(string(content)) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if ok && !strings.HasPrefix(name, "#") && !strings.HasPrefix(name, ";") {
				s.env[strings.TrimSpace(name)] = setting{strings.Trim(strings.TrimSpace(value), `"'`), file}
			}
		}
	}
	s.run(command)
	return s, nil
}

// set sets variables, of words NAME=VALUE; none resets all.
func (s Service) set(file string, assignments []string) {
	if len(assignments) == 0 {
		clear(s.env)
	}
	for _, assignment := range assignments {
		if name, value, ok := strings.Cut(assignment, "="); ok {
			s.env[name] = setting{value, file}
		}
	}
}

// run splits a command line: $NAME alone is the words of a variable, ${NAME} in a word its text.
func (s *Service) run(command setting) {
	for n, word := range words(command.text) {
		if n == 0 {
			s.Program = strings.TrimLeft(word, "@-:+!")
			continue
		}
		if name, ok := strings.CutPrefix(word, "$"); ok && !strings.HasPrefix(name, "{") {
			variable := s.env[name]
			for _, part := range words(variable.text) {
				s.args = append(s.args, setting{part, variable.by})
			}
			continue
		}
		arg := setting{word, command.by}
		for name, variable := range s.env {
			if reference := "${" + name + "}"; strings.Contains(arg.text, reference) {
				arg = setting{strings.ReplaceAll(arg.text, reference, variable.text), variable.by}
			}
		}
		s.args = append(s.args, arg)
	}
}

// words splits a text at white space outside of quotes, which are removed.
func words(text string) (all []string) {
	var word strings.Builder
	quote, within := rune(0), false
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, within = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if within || word.Len() > 0 {
				all = append(all, word.String())
			}
			word.Reset()
			within = false
		default:
			word.WriteRune(r)
		}
	}
	if within || word.Len() > 0 {
		all = append(all, word.String())
	}
	return all
}

// option is an option of CRI-O, with its names: internal/criocli/criocli.go in CRI-O.
type option struct{ name, short, variable string }

// Options by which CRI-O ignores files, or what they have.
var (
	optionConfig    = option{"config", "c", "CONTAINER_CONFIG"}
	optionConfigDir = option{"config-dir", "d", "CONTAINER_CONFIG_DIR"}
	optionDriver    = option{"storage-driver", "s", "CONTAINER_STORAGE_DRIVER"}
	optionStorage   = option{"storage-opt", "", "CONTAINER_STORAGE_OPT"}
	optionPins      = option{"pinned-images", "", "CONTAINER_PINNED_IMAGES"}
)

// value is what an option is set to, and the file that does so; by is "" if nothing does.
func (s Service) value(o option) (value, by string) {
	if variable := s.env[o.variable]; variable.text != "" {
		value, by = variable.text, variable.by
	}
	for n, arg := range s.args {
		name, inline, ok := strings.Cut(arg.text, "=")
		dashes := strings.TrimLeft(name, "-")
		if name == dashes || dashes != o.name && (o.short == "" || dashes != o.short) {
			continue
		}
		if value, by = inline, arg.by; !ok && n+1 < len(s.args) {
			value = s.args[n+1].text
		}
	}
	return value, by
}

// Replaced lists the options of a CRI-O that is started like this which replace what its files in the folder dir say of
// stores and pins.
func (s Service) Replaced(dir string) (problems []string) {
	for _, other := range []struct {
		option option
		usual  string
	}{{optionConfig, path.Join(dir, "crio.conf")}, {optionConfigDir, path.Join(dir, "crio.conf.d")}} {
		if value, by := s.value(other.option); by != "" && path.Clean(value) != other.usual {
			problems = append(problems, fmt.Sprintf("%s makes it read %s instead of %s (--%s)", by, value, other.usual,
				other.option.name))
		}
	}
	for _, replaced := range []struct {
		option option
		what   string
	}{{optionStorage, "storage_option"}, {optionPins, "pinned_images"}} {
		if value, by := s.value(replaced.option); by != "" {
			problems = append(problems, fmt.Sprintf("%s has --%s %s, which replaces the %s of all files: move it to a file "+
				"in %s", by, replaced.option.name, value, replaced.what, path.Dir(StoresPath)))
		}
	}
	return problems
}
