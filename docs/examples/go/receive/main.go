// Command receive is a tenant's webhook endpoint: it verifies each webhook, does once what it asks
// for, and answers.
//
//	AJO_WEBHOOK_SECRET=… ADDR=127.0.0.1:3000 go run ./docs/examples/go/receive
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"ajo/api/client"
)

func main() {
	secret := os.Getenv("AJO_WEBHOOK_SECRET") // from POST /auth/webhook-secret
	if secret == "" {
		log.Fatal("AJO_WEBHOOK_SECRET is not set")
	}
	http.Handle("POST /hook", &endpoint{secret: secret, done: map[string]bool{}, over: map[string]bool{}})
	addr := os.Getenv("ADDR")
	if addr == "" {
		addr = "127.0.0.1:3000"
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s/hook\n", listener.Addr())
	server := http.Server{ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

type endpoint struct {
	secret string
	mu     sync.Mutex
	done   map[string]bool // in your database, in the transaction that does the work
	over   map[string]bool // likewise: payments that count no more, even before they have come
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// raw: the signature is over these bytes
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	event, err := client.VerifyWebhook(r.Header, body, e.secret, client.Tolerance)
	if err != nil {
		fmt.Println("refused:", err)
		http.Error(w, "not a webhook of ours", http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	again := e.done[event.Key()]
	e.done[event.Key()] = true
	late := e.over[event.TransactionGroupID] // events come in any order
	if event.EventType == "payment.reversed" {
		e.over[event.TransactionGroupID] = true
	}
	if event.Replaces != "" {
		e.over[event.Replaces] = true
	}
	e.mu.Unlock()
	switch {
	case again: // a repetition: answer it, and do nothing
		fmt.Println("again:", event.EventType, event.TransactionGroupID)
	case event.EventType == "payment.reversed":
		fmt.Printf("payment.reversed: %s %s: take back what was done for it\n", event.AccountRef, event.Amount)
	case late:
		fmt.Printf("%s: %s %s does not count any more (%s): deliver nothing for it\n", event.EventType, event.AccountRef, event.Amount, event.TransactionGroupID)
	case event.Policy != "":
		fmt.Printf("%s: %s %s is held (%s): deliver nothing for it\n", event.EventType, event.AccountRef, event.Amount, event.Policy)
	case event.Replaces != "":
		fmt.Printf("%s: %s %s in the place of %s: deliver no second time\n", event.EventType, event.AccountRef, event.Amount, event.Replaces)
	case event.EventType == "payment.received":
		fmt.Printf("payment.received: %s got NGN %s from %q\n", event.AccountRef, event.Amount, event.SenderName)
	default:
		fmt.Println(event.EventType+":", event.AccountRef, event.Amount)
	}
	// any 2xx, within 10 seconds; slow work belongs in a queue of your own
	w.WriteHeader(http.StatusNoContent)
}
