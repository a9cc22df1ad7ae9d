// What all clients share: the scripts, the locks, and what is known of the redis-server.
package main

import (
	"net"
	"regexp"
	"sync"
)

type server struct {
	address string
	locks   *locks
	scripts *scriptCache

	mutex sync.Mutex
	// Of the process that was there last.
	runID    string
	commands commandTable
}

func newServer(address string) *server {
	return &server{address: address, locks: newLocks(), scripts: newScriptCache()}
}

// serve ends with either of the two connections.
func (s *server) serve(conn net.Conn) {
	defer conn.Close()
	redis, err := dialRedis(s.address)
	if err != nil {
		return
	}
	defer redis.Close()
	go redis.listen(conn)
	if commands, err := s.meet(redis); err == nil {
		(&session{server: s, client: newConnection(conn), redis: redis, commands: commands}).serve()
	}
}

var runIDLine = regexp.MustCompile(`run_id:\w+`)

// meet learns the server's commands. One that was started anew has lost its scripts and counts from zero.
func (s *server) meet(redis *upstream) (commandTable, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	info, err := redis.ask("INFO", "server")
	if err != nil {
		return nil, err
	}
	runID := runIDLine.FindString(info.text)
	if runID == s.runID {
		return s.commands, nil
	}
	listed, err := redis.ask("COMMAND")
	if err != nil {
		return nil, err
	}
	s.runID, s.commands = runID, readCommandTable(listed)
	s.scripts.reset()
	return s.commands, nil
}
