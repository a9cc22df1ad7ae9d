// The scripts that were loaded, by the SHA-1 of their text, and how often they were called.
package main

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

const chunkName = "@user_script"

type script struct {
	proto *lua.FunctionProto
	flags map[string]bool
}

// Its keys are those in KEYS and no others.
func (s *script) locksKeys() bool { return s.flags["allow-key-locking"] }

type scriptCache struct {
	mutex sync.Mutex
	bySHA map[string]*script
	calls map[string]int
}

func newScriptCache() *scriptCache {
	return &scriptCache{bySHA: map[string]*script{}, calls: map[string]int{}}
}

func sha1Hex(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (c *scriptCache) find(sha string) *script {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.bySHA[strings.ToLower(sha)]
}

// load compiles a script unless it is there already.
func (c *scriptCache) load(text string) (*script, error) {
	sha := sha1Hex(text)
	if known := c.find(sha); known != nil {
		return known, nil
	}
	compiled, err := compile(text)
	if err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.bySHA[sha] = compiled
	return compiled, nil
}

func (c *scriptCache) flush() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.bySHA = map[string]*script{}
}

func (c *scriptCache) reset() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.bySHA, c.calls = map[string]*script{}, map[string]int{}
}

func (c *scriptCache) count(command string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.calls[strings.ToLower(command)]++
}

// stats are the lines that the redis-server would have in INFO commandstats if it had run the scripts.
func (c *scriptCache) stats() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	lines := make([]string, 0, len(c.calls))
	for command, calls := range c.calls {
		lines = append(lines, fmt.Sprintf("cmdstat_%s:calls=%d,usec=0,usec_per_call=0.00\r\n", command, calls))
	}
	sort.Strings(lines)
	return strings.Join(lines, "")
}

var (
	shebang    = regexp.MustCompile(`^#![^\n]*`)
	knownFlags = set("allow-key-locking", "no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys")
	spaces     = regexp.MustCompile(`[ \n]+`)
)

func compile(text string) (*script, error) {
	flags, err := readShebang(shebang.FindString(text))
	if err != nil {
		return nil, err
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	// Without the line's text but with its end: lines keep their numbers.
	function, err := state.Load(strings.NewReader(shebang.ReplaceAllString(text, "")), chunkName)
	if err != nil {
		return nil, fmt.Errorf("ERR Error running script: %s", strings.TrimSpace(spaces.ReplaceAllString(err.Error(), " ")))
	}
	return &script{function.Proto, flags}, nil
}

// readShebang reads a line as `#!lua flags=a,b`.
func readShebang(line string) (map[string]bool, error) {
	flags := map[string]bool{}
	words := strings.Fields(line)
	if len(words) == 0 {
		return flags, nil
	}
	if words[0] != "#!lua" {
		return nil, fmt.Errorf("ERR Unexpected engine in script shebang: %s", strings.TrimPrefix(words[0], "#!"))
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "flags=") {
			return nil, fmt.Errorf("ERR Unknown lua shebang option: %s", word)
		}
		for _, flag := range strings.Split(strings.TrimPrefix(word, "flags="), ",") {
			if flag != "" && !knownFlags[flag] {
				return nil, fmt.Errorf("ERR Unexpected flag in script shebang: %s", flag)
			}
			flags[flag] = true
		}
	}
	return flags, nil
}
