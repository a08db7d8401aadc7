package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// proxy is a module proxy, as a URL of a directory. It has our modules only.
type proxy struct {
	url       string
	published []published
}

// published is what go mod download says of a module.
type published struct{ Path, Version, Sum, GoModSum string }

// publish makes a module proxy that has a version of the modules. The go command itself packs them, from
// a repository with the tags that will be pushed.
func publish(t tree, version, temporary string, modules []module) (*proxy, error) {
	repository := tree(filepath.Join(temporary, "repository"))
	if err := t.copyTo(repository); err != nil {
		return nil, err
	}
	git := func(args ...string) error {
		args = append([]string{"-c", "user.name=release", "-c", "user.email=release@localhost", "-c", "commit.gpgsign=false",
			"-c", "tag.gpgsign=false", "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false"}, args...)
		_, err := output(string(repository), nil, "git", args...)
		return err
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", version}} {
		if err := git(args...); err != nil {
			return nil, err
		}
	}
	cache := filepath.Join(temporary, "published")
	p := &proxy{url: "file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download"))}
	for _, m := range modules {
		if err := git("tag", m.tag(version)); err != nil {
			return nil, err
		}
		said, err := output(temporary, []string{
			"GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE=" + cache, "GOPROXY=direct", "GOPRIVATE=" + root, "GOTOOLCHAIN=local",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + string(repository) + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + root,
		}, "go", "mod", "download", "-json", m.path+"@"+version)
		if err != nil {
			return nil, err
		}
		var packed published
		if err := json.Unmarshal([]byte(said), &packed); err != nil {
			return nil, err
		}
		p.published = append(p.published, packed)
	}
	return p, nil
}

// sums returns the lines of a go.sum file for the root.
func (p *proxy) sums() []string {
	m := p.published[0]
	return []string{fmt.Sprintf("%s %s %s\n", m.Path, m.Version, m.Sum), fmt.Sprintf("%s %s/go.mod %s\n", m.Path, m.Version, m.GoModSum)}
}

// withSums returns the text of a go.sum file with these lines for the root in place of those it has.
func withSums(text string, sums []string) string {
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(text)), func(line string) bool { return strings.HasPrefix(line, root+" ") })
	at := slices.IndexFunc(lines, func(line string) bool { return line > root+" " })
	if at < 0 {
		at = len(lines)
	}
	return strings.Join(slices.Insert(lines, at, sums...), "")
}
