package fakebank

import (
	"net/http"
	"strings"
)

// The NIN that always exists, and whose it is.
const (
	SandboxNIN         = "70123456789"
	SandboxFirstName   = "AMINA"
	SandboxLastName    = "BELLO"
	SandboxDateOfBirth = "1990-05-14"
)

// OtherFormNIN exists too, and is answered with the service's other field names (firstname,
// surname, birthdate).
const OtherFormNIN = "70123456780"

// Person is what the NIN service knows of one number.
type Person struct {
	FirstName   string `json:"firstName"`
	LastName    string `json:"lastName"`
	DateOfBirth string `json:"dateOfBirth"` // 1990-05-14
	OtherForm   bool   `json:"otherForm,omitempty"`
}

func sandboxPeople() map[string]Person {
	return map[string]Person{
		SandboxNIN:   {FirstName: SandboxFirstName, LastName: SandboxLastName, DateOfBirth: SandboxDateOfBirth},
		OtherFormNIN: {FirstName: "CHIDI", LastName: "OKEKE", DateOfBirth: "1985-11-02", OtherForm: true},
	}
}

// ninError is the NIN service's error body.
type ninError struct {
	Error string `json:"error"`
}

// AddPerson makes the NIN service know a number.
func (b *Bank) AddPerson(nin string, p Person) {
	b.books.mu.Lock()
	defer b.books.mu.Unlock()
	b.books.people[nin] = p
	b.books.changes.Add(1)
}

// checkNIN serves GET /api/v1/kyc/nin. Its Authorization header is the bare key, without "Bearer".
func (b *Bank) checkNIN(c *call) answer {
	app, key := c.Header.Get("AppId"), c.Header.Get("Authorization")
	if !permitted(app, b.opt.IdentityAppID) || !permitted(key, b.opt.IdentityKey) || strings.HasPrefix(key, "Bearer ") {
		return answer{http.StatusUnauthorized, ninError{"Unauthorized"}}
	}
	nin := c.URL.Query().Get("nin")
	if len(nin) != 11 || !allDigits(nin) {
		return answer{http.StatusBadRequest, ninError{"nin must be 11 digits"}}
	}
	b.books.mu.RLock()
	p, ok := b.books.people[nin]
	b.books.mu.RUnlock()
	if !ok || c.does(NotFound) {
		return answer{http.StatusNotFound, ninError{"NIN not found"}}
	}
	entity := map[string]string{"nin": nin, "first_name": p.FirstName, "last_name": p.LastName, "date_of_birth": p.DateOfBirth}
	if p.OtherForm {
		entity = map[string]string{"nin": nin, "firstname": p.FirstName, "surname": p.LastName, "birthdate": p.DateOfBirth}
	}
	return answer{http.StatusOK, map[string]any{"entity": entity}}
}

// permitted reports whether a credential is the wanted one, or anything at all where none is
// wanted.
func permitted(got, want string) bool {
	if want == "" {
		return got != ""
	}
	return got == want
}
