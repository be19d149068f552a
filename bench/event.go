package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// narrationMark stands before a payment's number in its narration, by which the tenant's endpoint
// knows it again.
const narrationMark = "bench payment "

// payment is one payment whose event the bank is to send.
type payment struct {
	account *account
	txn     string // the bank's transaction id
	request string // requestId of the event
	gross   money.Amount
	fee     money.Amount
	at      string // the bank's time, RFC 3339
}

func (p payment) net() money.Amount { return p.gross.Sub(p.fee) }

// madeASecond is how many payments the bank made in a second: its list is read by the second.
const madeASecond = 4000

// bankID is the bank's id of a payment: without order, as a real bank's are, and the same in each
// run.
func bankID(of string, number int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(of+strconv.Itoa(number))).String()
}

// payments makes n payments over the accounts in turn, from number first on; the last was made just
// now. The bank has no record of them.
func payments(accounts []*account, first, n int) []payment {
	all := make([]payment, n)
	now := time.Now().UTC()
	for i := range all {
		at := now.Add(-time.Duration(n-1-i) * time.Second / madeASecond).Format(time.RFC3339)
		all[i] = payment{
			account: accounts[i%len(accounts)], txn: "API-VACT_TRA-" + bankID("transaction", first+i), request: bankID("request", first+i), gross: grossOf(i),
			fee: money.FromKobo(10_00), at: at,
		}
	}
	return all
}

// grossOf varies the sums: one that went to the wrong account would show.
func grossOf(i int) money.Amount { return money.FromKobo(int64(100_00 + i%997)) }

// eventRequest is the bank's signed HTTP request about a payment, as the fake bank would send it.
func eventRequest(host string, number int, p payment) []byte {
	event := fakebank.Event{EventType: fakebank.PaymentSuccess, RequestID: p.request, Data: fakebank.EventData{
		Merchant: fakebank.EventMerchant{UserID: fakebank.DefaultAccountID, WalletID: "wallet-" + fakebank.DefaultAccountID, WalletBalance: json.RawMessage("1000000.00")},
		Transaction: fakebank.EventTransaction{
			TransactionID: p.txn, Type: fakebank.TypeInbound, Time: p.at, ResponseCode: json.RawMessage(`""`),
			TransactionAmount: json.RawMessage(p.gross.String()), Fee: json.RawMessage(p.fee.String()), Currency: money.Currency,
			AliasReference: p.account.bankRef, AliasNumber: p.account.number, Narration: narrationMark + strconv.Itoa(number),
		},
		Customer: fakebank.EventCustomer{SenderName: "BOLA OJO", AccountNumber: "0123456789", BankName: "Wema Bank"},
	}}
	body, err := json.Marshal(event)
	if err != nil {
		panic(err) // an event always marshals
	}
	signature := fakebank.Sign(fakebank.DefaultWebhookSecret, fakebank.SignedFields{
		EventType: event.EventType, RequestID: p.request, UserID: event.Data.Merchant.UserID, WalletID: event.Data.Merchant.WalletID,
		TransactionID: p.txn, Type: fakebank.TypeInbound, Time: p.at,
	}, p.at)
	return httpRequest("POST", host, "/webhooks/provider", body,
		fakebank.DefaultSignatureHeader+": "+signature, fakebank.DefaultTimestampHeader+": "+p.at)
}

// httpRequest is a whole HTTP/1.1 request with a JSON body.
func httpRequest(method, host, path string, body []byte, headers ...string) []byte {
	b := make([]byte, 0, 256+len(body))
	b = fmt.Appendf(b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, host)
	for _, h := range headers {
		b = append(append(b, h...), "\r\n"...)
	}
	if body != nil {
		b = fmt.Appendf(b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return append(append(b, "\r\n"...), body...)
}

// eventRequests makes the requests of payments beforehand, so that the load costs little while it
// runs.
func eventRequests(host string, all []payment) [][]byte {
	requests := make([][]byte, len(all))
	const part = 1000
	var wg sync.WaitGroup
	for from := 0; from < len(all); from += part {
		wg.Go(func() {
			for i := from; i < min(from+part, len(all)); i++ {
				requests[i] = eventRequest(host, i, all[i])
			}
		})
	}
	wg.Wait()
	return requests
}
