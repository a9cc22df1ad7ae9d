// A client's own connection to the redis-server: one command after the other.
package main

import (
	"errors"
	"net"
)

type upstream struct {
	*connection
	replies chan reply
}

var errRedisGone = errors.New("the redis-server is gone")

func dialRedis(address string) (*upstream, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &upstream{newConnection(conn), make(chan reply, 1)}, nil
}

// listen reads replies until the server goes away, and then says so to the client as a server would.
func (u *upstream) listen(client net.Conn) {
	defer client.Close()
	defer close(u.replies)
	for {
		reply, err := u.readReply()
		if err != nil {
			return
		}
		u.replies <- reply
	}
}

// ask sends one command and waits for its reply.
func (u *upstream) ask(args ...string) (reply, error) {
	u.writeCommand(args)
	if err := u.out.Flush(); err != nil {
		return reply{}, err
	}
	answer, isThere := <-u.replies
	if !isThere {
		return reply{}, errRedisGone
	}
	return answer, nil
}
