package main

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"ajo/internal/app"
)

// environment is where commands find their settings: in the environment of the process or, if that
// names no service, in the file of the `ajo dev` that runs in this folder. The two are never mixed:
// a command works on one service.
type environment struct {
	getenv func(string) string
	dir    string    // of `ajo dev`
	out    io.Writer // gets a line when the settings of ajo dev are used
	dev    func() map[string]string
}

func newEnvironment(getenv func(string) string, dir string, out io.Writer) *environment {
	e := &environment{getenv: getenv, dir: dir, out: out}
	e.dev = sync.OnceValue(e.find)
	return e
}

// services are settings, any of which means that the environment names a service.
var services = []string{"AJO_DATABASE_URL", "AJO_REDIS_URL", "AJO_ENCRYPTION_KEYS", "AJO_PROVIDER_URL", "AJO_HTTP_ADDR"}

func (e *environment) find() map[string]string {
	for _, name := range services {
		if e.getenv(name) != "" {
			return nil
		}
	}
	settings := app.DevSettings(e.dir)
	if settings != nil {
		fmt.Fprintf(e.out, "Using the settings of the ajo dev that runs here (%s).\n", filepath.Join(e.dir, "settings.json"))
	}
	return settings
}

// get is the value of a setting; "" for none.
func (e *environment) get(name string) string {
	if v := e.getenv(name); v != "" {
		return v
	}
	return e.dev()[name]
}

// url is the http URL of an address or URL among the settings, else other.
func (e *environment) url(name, other string) string {
	switch v := e.dev()[name]; {
	case v == "":
		return other
	case name == "AJO_HTTP_ADDR":
		return "http://" + v
	default:
		return v
	}
}
