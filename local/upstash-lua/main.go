// Upstash runs scripts on gopher-lua, a Lua 5.1 written in Go, and not on the Lua of Redis. This program
// does the same in front of one redis-server: it forwards every command, runs scripts itself, and sends
// what they call to that server.
//
//	upstash-lua -redis 127.0.0.1:6379 [-port 0]
//
// It prints the port it listens on, and ends when its standard input does: with the process that started it.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
)

func main() {
	redis := flag.String("redis", "127.0.0.1:6379", "address of the redis-server")
	port := flag.Int("port", 0, "port on loopback, 0 for any free one")
	flag.Parse()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		log.Fatal(err)
	}
	go endWithParent()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	server := newServer(*redis)
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go server.serve(client)
	}
}

func endWithParent() {
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
