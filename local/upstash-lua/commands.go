// What the redis-server says of its commands: where their keys are, and what they do.
package main

import (
	"strconv"
	"strings"
)

type command struct {
	first, last, step int
	// Only the server knows its keys, from all its arguments.
	hasMovableKeys bool
	flags          map[string]bool
}

type commandTable map[string]command

// They reach keys that no argument names.
var databaseWide = set("FLUSHDB", "FLUSHALL", "SWAPDB", "KEYS", "SCAN", "RANDOMKEY", "EXEC")

// They turn a connection into something else than commands and replies one by one.
var notForwarded = set("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "HELLO")

func set(names ...string) map[string]bool {
	made := map[string]bool{}
	for _, name := range names {
		made[name] = true
	}
	return made
}

// readCommandTable reads the reply to COMMAND: name, arity, flags, first key, last key, step, and more.
func readCommandTable(listed reply) commandTable {
	table := commandTable{}
	for _, entry := range listed.items {
		fields := entry.items
		if len(fields) < 6 {
			continue
		}
		flags := map[string]bool{}
		for _, flag := range fields[2].items {
			flags[flag.text] = true
		}
		hasSubcommands := len(fields) > 9 && len(fields[9].items) > 0
		table[strings.ToUpper(fields[0].text)] = command{
			number(fields[3]), number(fields[4]), number(fields[5]), flags["movablekeys"] || hasSubcommands, flags,
		}
	}
	return table
}

func number(r reply) int {
	parsed, _ := strconv.Atoi(r.text)
	return parsed
}

// keysAt are the keys of a command whose keys do not move.
func (c command) keysAt(args []string) []string {
	last := c.last
	if last < 0 {
		last += len(args)
	}
	var keys []string
	for i := c.first; c.first > 0 && i <= last && i < len(args); i += c.step {
		keys = append(keys, args[i])
	}
	return keys
}
