// One client: its commands go to the redis-server one after the other, its scripts run here.
package main

import (
	"strings"
)

type session struct {
	server   *server
	client   *connection
	redis    *upstream
	commands commandTable
	// Since MULTI; nil outside of a transaction.
	queue *transaction
	// The redis-server went away: whatever is going on, this session is over.
	lost error
}

func (s *session) serve() {
	for {
		args, err := s.client.readCommand()
		if err != nil {
			return
		}
		answer := s.answer(args)
		if s.lost != nil {
			return
		}
		s.client.writeReply(answer)
		// A pipeline is answered in one go.
		if s.client.in.Buffered() > 0 {
			continue
		}
		if err := s.client.out.Flush(); err != nil {
			return
		}
	}
}

func (s *session) answer(args []string) reply {
	name := strings.ToUpper(args[0])
	switch {
	case notForwarded[name]:
		return failure("ERR Command is not available: '%s'", name)
	case name == "EXEC" && s.queue != nil:
		return s.execute()
	case name == "DISCARD" && s.queue != nil:
		s.queue = nil
		return s.ask(args...)
	case name == "MULTI":
		return s.begin(args)
	case s.queue != nil:
		return s.enqueue(args)
	}
	if runsScripts(args) {
		return s.runCommand(args, s.lockForScript)
	}
	defer s.lockFor(args)()
	return s.forward(args)
}

// ask forwards a command. Once the redis-server is lost, every answer is an error.
func (s *session) ask(args ...string) reply {
	if s.lost == nil {
		answer, err := s.redis.ask(args...)
		if err == nil {
			return answer
		}
		s.lost = err
	}
	return failure("ERR %v", s.lost)
}

// forward adds to INFO what the server cannot know: the scripts that ran here.
func (s *session) forward(args []string) reply {
	answer := s.ask(args...)
	if strings.EqualFold(args[0], "INFO") && strings.Contains(answer.text, "# Commandstats") {
		answer.text += s.server.scripts.stats()
	}
	return answer
}

// lockFor locks what a plain command uses, and returns what unlocks it.
func (s *session) lockFor(args []string) func() {
	name := strings.ToUpper(args[0])
	known := s.commands[name]
	switch {
	case known.flags["blocking"]:
		// It may wait for somebody who needs the same key.
		return func() {}
	case databaseWide[name] || known.hasMovableKeys:
		return s.server.locks.lockDatabase()
	}
	return s.server.locks.lockKeys(known.keysAt(args), known.flags["readonly"])
}

func (s *session) lockForScript(called *script, keys []string, isReadOnly bool) func() {
	if called.locksKeys() {
		return s.server.locks.lockKeys(keys, isReadOnly)
	}
	return s.server.locks.lockDatabase()
}

// keysOf are the keys that a command of a script would use.
func (s *session) keysOf(args []string) []string {
	known := s.commands[strings.ToUpper(args[0])]
	if !known.hasMovableKeys {
		return known.keysAt(args)
	}
	// An error means that there are none, or that the command itself will fail.
	listed := s.ask(append([]string{"COMMAND", "GETKEYS"}, args...)...)
	var keys []string
	for _, item := range listed.items {
		keys = append(keys, item.text)
	}
	return keys
}
