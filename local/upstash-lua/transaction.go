// MULTI and EXEC. Without scripts the redis-server does it all; with some, the commands run one by one while
// nobody else is let in. WATCH is not looked at then: the REST API does not have it.
package main

type transaction struct {
	commands  [][]string
	hasScript bool
	isRefused bool
}

func (s *session) begin(args []string) reply {
	answer := s.ask(args...)
	if !answer.isFailure() {
		s.queue = &transaction{}
	}
	return answer
}

func (s *session) enqueue(args []string) reply {
	answer := reply{kind: '+', text: "QUEUED"}
	if runsScripts(args) {
		s.queue.hasScript = true
	} else {
		answer = s.ask(args...)
	}
	s.queue.isRefused = s.queue.isRefused || answer.isFailure()
	s.queue.commands = append(s.queue.commands, args)
	return answer
}

func (s *session) execute() reply {
	queue := s.queue
	s.queue = nil
	defer s.server.locks.lockDatabase()()
	if !queue.hasScript || queue.isRefused {
		return s.ask("EXEC")
	}
	s.ask("DISCARD")
	replies := make([]reply, len(queue.commands))
	for i, args := range queue.commands {
		if runsScripts(args) {
			replies[i] = s.runCommand(args, func(*script, []string, bool) func() { return func() {} })
		} else {
			replies[i] = s.forward(args)
		}
	}
	return reply{kind: '*', items: replies}
}
