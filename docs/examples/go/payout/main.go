// Command payout opens a virtual account, waits until it is paid, and pays out what came in.
//
//	AJO_API_KEY=ajo_… go run ./docs/examples/go/payout customer-1 044 0123456789
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"ajo/api/client"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: payout <your reference> <bank code> <account number>")
	}
	url := os.Getenv("AJO_URL")
	if url == "" {
		url = "http://127.0.0.1:8080"
	}
	ajo, err := client.New(client.Options{URL: url, Key: os.Getenv("AJO_API_KEY")})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := run(ctx, ajo, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, ajo *client.Client, ref, bankCode, accountNumber string) error {
	// The same reference gives the same account, so this may run again.
	account, err := ajo.OpenAccount(ctx, client.NewAccount{ExternalRef: ref, Name: "Ada Obi"})
	if err != nil {
		return err
	}
	fmt.Println("pay to", account.BankAccountNumber, account.BankName)

	// A webhook delivers payments as they come (see receive); a program that runs once may as well
	// ask.
	var amount string
	for amount == "" {
		balance, err := ajo.Balance(ctx, ref)
		if err := patient(ctx, err); err != nil {
			return err
		}
		if err == nil && balance.Balance != "0.00" {
			amount = balance.Balance
		}
	}
	fmt.Println("received NGN", amount)

	holder, err := ajo.Lookup(ctx, bankCode, accountNumber)
	if err != nil {
		return err
	}
	fmt.Println("paying to", holder.AccountName)

	// The key makes it safe to ask again when the answer is lost: a new one for each payout, kept
	// beside your own record of it before the first call.
	key := client.IdempotencyKey(rand.Text())
	order := client.Order{Amount: amount, BankCode: bankCode, AccountNumber: accountNumber, AccountName: holder.AccountName, Narration: "payout of " + ref}
	var accepted client.Accepted
	for accepted.MerchantTxRef == "" {
		accepted, err = ajo.Settle(ctx, ref, order, key)
		if err := patient(ctx, err); err != nil {
			return err
		}
	}
	fmt.Println("accepted as", accepted.MerchantTxRef)

	for {
		transfer, err := ajo.Transfer(ctx, accepted.MerchantTxRef)
		if err := patient(ctx, err); err != nil {
			return err
		}
		if transfer.Ended() {
			fmt.Println("the transfer ended:", transfer.Status)
			return nil
		}
	}
}

// patient waits before the same call is made again, and ends with the error where that would be no
// use.
func patient(ctx context.Context, err error) error {
	wait := time.Second
	var refused *client.Error
	if errors.As(err, &refused) {
		if !refused.Retryable() {
			return err
		}
		wait = max(wait, refused.RetryAfter)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}
