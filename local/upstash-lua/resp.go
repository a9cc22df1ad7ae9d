// The Redis protocol, version 2, as far as a proxy needs it.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// A reply has one of the kinds + - : $ * and is null if it is a $ or * without content.
type reply struct {
	kind  byte
	text  string
	items []reply
	null  bool
}

var (
	statusOK = reply{kind: '+', text: "OK"}
	null     = reply{kind: '$', null: true}
)

func failure(format string, args ...interface{}) reply {
	return reply{kind: '-', text: fmt.Sprintf(format, args...)}
}

func integer(number int64) reply { return reply{kind: ':', text: strconv.FormatInt(number, 10)} }

func (r reply) isFailure() bool { return r.kind == '-' }

var errProtocol = errors.New("not the Redis protocol")

type connection struct {
	net.Conn
	in  *bufio.Reader
	out *bufio.Writer
}

func newConnection(conn net.Conn) *connection {
	return &connection{conn, bufio.NewReaderSize(conn, 1<<16), bufio.NewWriterSize(conn, 1<<16)}
}

func (c *connection) readCommand() ([]string, error) {
	command, err := c.readReply()
	if err != nil {
		return nil, err
	}
	if command.kind != '*' || len(command.items) == 0 {
		return nil, errProtocol
	}
	args := make([]string, len(command.items))
	for i, item := range command.items {
		args[i] = item.text
	}
	return args, nil
}

func (c *connection) readReply() (reply, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return reply{}, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return reply{}, errProtocol
	}
	kind, text := line[0], line[1:len(line)-2]
	if kind != '$' && kind != '*' {
		return reply{kind: kind, text: text}, nil
	}
	size, err := strconv.Atoi(text)
	if err != nil {
		return reply{}, errProtocol
	}
	if size < 0 {
		return reply{kind: kind, null: true}, nil
	}
	if kind == '$' {
		return c.readBulk(size)
	}
	items := make([]reply, size)
	for i := range items {
		if items[i], err = c.readReply(); err != nil {
			return reply{}, err
		}
	}
	return reply{kind: kind, items: items}, nil
}

func (c *connection) readBulk(size int) (reply, error) {
	bytes := make([]byte, size+2)
	if _, err := io.ReadFull(c.in, bytes); err != nil {
		return reply{}, err
	}
	return reply{kind: '$', text: string(bytes[:size])}, nil
}

func (c *connection) writeCommand(args []string) {
	fmt.Fprintf(c.out, "*%d\r\n", len(args))
	for _, arg := range args {
		c.writeReply(reply{kind: '$', text: arg})
	}
}

// Errors of the connection stay in its writer: Flush reports them.
func (c *connection) writeReply(r reply) {
	c.out.WriteByte(r.kind)
	switch {
	case r.null:
		c.out.WriteString("-1")
	case r.kind == '$':
		c.out.WriteString(strconv.Itoa(len(r.text)))
		c.out.WriteString("\r\n")
		c.out.WriteString(r.text)
	case r.kind == '*':
		c.out.WriteString(strconv.Itoa(len(r.items)))
	default:
		// Only \r\n ends a line: the \n of a stack trace may stay.
		c.out.WriteString(strings.ReplaceAll(r.text, "\r", " "))
	}
	c.out.WriteString("\r\n")
	for _, item := range r.items {
		c.writeReply(item)
	}
}
