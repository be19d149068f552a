package testenv

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// LostRedis is a way to the test's Redis on which commands, or the answers to them, can be lost,
// and their connections with them: asynq cannot tell which of the two it was.
type LostRedis struct {
	URL    string
	server string

	mu      sync.Mutex
	match   func(command []string) bool
	left    int
	arrives bool // the command does, and its answer does not
}

// LoseAnswers has the next n commands that match performed, and the answers to them lost. A command
// that finds nothing (nil) or a script that the server does not know yet has done nothing: its
// answer is not the one.
func (l *LostRedis) LoseAnswers(n int, match func(command []string) bool) { l.lose(n, match, true) }

// LoseCommands has the next n commands that match lost before they arrive.
func (l *LostRedis) LoseCommands(n int, match func(command []string) bool) { l.lose(n, match, false) }

func (l *LostRedis) lose(n int, match func([]string) bool, arrives bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.match, l.arrives = n, match, arrives
}

// Left is how many are still to be lost.
func (l *LostRedis) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// LostRedis puts a proxy before the test's Redis.
func (e *Env) LostRedis() *LostRedis {
	e.T.Helper()
	e.Redis()
	u, err := url.Parse(e.RedisURL)
	must(e.T, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(e.T, err)
	e.T.Cleanup(func() { _ = listener.Close() })
	l := &LostRedis{server: u.Host}
	u.Host = listener.Addr().String()
	l.URL = u.String()
	go l.serve(listener)
	return l
}

func (l *LostRedis) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // the test has ended
		}
		server, err := net.Dial("tcp", l.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		// a command that matches is under way, and its answer may be the one to lose
		var asked atomic.Bool
		go func() { l.toServer(server, client, &asked); _, _ = server.Close(), client.Close() }()
		go func() { l.toClient(client, server, &asked); _, _ = server.Close(), client.Close() }()
	}
}

// toServer passes commands on, one by one, until one is to be lost.
func (l *LostRedis) toServer(server io.Writer, client io.Reader, asked *atomic.Bool) {
	in := bufio.NewReader(client)
	for {
		raw, command, err := readCommand(in)
		if err != nil {
			return
		}
		l.mu.Lock()
		matches := l.left > 0 && l.match(command)
		if matches && !l.arrives {
			l.left--
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		asked.Store(matches)
		if _, err := server.Write(raw); err != nil {
			return
		}
	}
}

// toClient passes answers on, until one is to be lost. A client that waits for the answer to a
// script sends nothing meanwhile, so the bytes that come then are that answer's.
func (l *LostRedis) toClient(client io.Writer, server io.Reader, asked *atomic.Bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		answer := buf[:n]
		nothing := bytes.HasPrefix(answer, []byte("-NOSCRIPT")) || bytes.HasPrefix(answer, []byte("$-1")) || bytes.HasPrefix(answer, []byte("_"))
		if asked.Swap(false) && !nothing {
			l.mu.Lock()
			lost := l.left > 0
			if lost {
				l.left--
			}
			l.mu.Unlock()
			if lost {
				return
			}
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

// readCommand reads an array of bulk strings, as all clients send them.
func readCommand(in *bufio.Reader) (raw []byte, command []string, err error) {
	line := func(mark byte) (int, error) {
		text, err := in.ReadString('\n')
		raw = append(raw, text...)
		if err != nil {
			return 0, err
		}
		if text[0] != mark {
			return 0, fmt.Errorf("testenv: %q is not a command", text)
		}
		return strconv.Atoi(strings.TrimSpace(text[1:]))
	}
	n, err := line('*')
	if err != nil {
		return nil, nil, err
	}
	for range n {
		size, err := line('$')
		if err != nil {
			return nil, nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, nil, err
		}
		raw, command = append(raw, word...), append(command, string(word[:size]))
	}
	return raw, command, nil
}
